"""What `dev.py fit --json` answers for one of ComfyUI's own templates."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from on_path import ROOT

from tools.comfyui import VARIABLE
from tools.errors import DevError
from tools.template_package import templates_of

LIMIT_S = 1800


def answer_for(tree: Path, name: str, *words: str) -> dict[str, Any]:
    """The answer, on this ComfyUI and with these further words; DevError where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        workflow = Path(folder) / f"{name}.json"
        workflow.write_text(json.dumps(templates_of(tree)[name]), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "tools.fit", workflow, "--json", *words],
            stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, cwd=ROOT,
            env={**os.environ, VARIABLE: str(tree)})
    if done.returncode:
        raise DevError(f"fit gave no answer for {name}; its words are above.")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
