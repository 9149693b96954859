"""Write the bundled workflows and their API prompts; run after changing `devtools/workflows/`.

    python -m devtools.draw --server http://127.0.0.1:8188

The server tells what inputs and outputs each node has; it should be the oldest one supported.
The measured figures in the notes and in the READMEs come from `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from . import bench_tables, figures
from .canvas import Canvas
from .client import Client
from .node_info import NodeInfo, node_infos
from .workflows import WORKFLOWS

ROOT = Path(__file__).resolve().parent.parent
UI_FOLDER, API_FOLDER = ROOT / "workflows", ROOT / "tests" / "workflows"


def drawn(name: str, infos: Mapping[str, NodeInfo]) -> Canvas:
    """The workflow of that name with its note."""
    module = WORKFLOWS[name]
    canvas = Canvas(name, infos)
    module.draw(canvas, note(name, module))
    return canvas


def note(name: str, module: ModuleType) -> str:
    """What the note in a workflow says."""
    parts = [
        f"## {module.TITLE}",
        f"**The problem.** {module.PROBLEM.strip()}",
        f"**What solves it.**{_begun(module.SOLUTION.strip())}",
        figures.note_text(name),
        f"**How to use it.**\n{module.USE.strip()}",
    ]
    return "\n\n".join(part for part in parts if part)


def _begun(text: str) -> str:
    """A list begins on a line of its own, anything else goes on in the same line."""
    return f"\n\n{text}" if text.startswith("- ") else f" {text}"


def written(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, metavar="URL")
    infos = node_infos(Client(parser.parse_args().server).get_json("/object_info"))
    for name in WORKFLOWS:
        canvas = drawn(name, infos)
        for folder, data in ((UI_FOLDER, canvas.ui()), (API_FOLDER, canvas.prompt())):
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.json").write_text(written(data), encoding="utf-8")
        print(name)
    bench_tables.publish()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
