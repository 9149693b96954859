"""What a bug report needs to contain, without private data.

Of records it has only figures, classes of nodes and models, and templates of our sentences: no text
of a prompt, no title, no name of a file, no path, and no ids that are words.
"""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ..host.features import comfyui_version

Json = dict[str, Any]

RUNS = 5
PACKAGES = ("numpy", "safetensors", "psutil", "nvidia-ml-py", "comfyui-frontend-package",
            "comfy-aimdo")
PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
# Strings that come from us, ComfyUI or a driver; all others may be the user's.
KEPT = frozenset(
    {"status", "class_type", "class", "kind", "device", "name", "template", "vram_source", "family"}
)
LEFT_OUT = object()
SETTINGS = ("HEADROOM_", "PYTORCH_")
SET = "(set)"
_plain = re.compile(r"[\w.,:%\[\]-]*").fullmatch
_number = re.compile(r"[\d:.-]+|headroom-guard-[\d:.-]+_*").fullmatch
_uuid = re.compile(r"[0-9a-f-]{32,36}").fullmatch
_SIZES = re.compile(r"\d[\d.,]* ?[KMGT]i?B\b")


def bug_report(
    memory: Json, runs: Iterable[Json],
    environment: Mapping[str, str] = os.environ, words: Sequence[str] = sys.argv,
) -> Json:
    """Return the report: `memory` and `runs` are answers of our routes; it costs no more."""
    return {
        "versions": _versions(),
        "settings": {name: value if _plain(value) else SET
                     for name, value in sorted(environment.items()) if name.startswith(SETTINGS)},
        "arguments": _flags(words[1:]),
        "memory": _figures(memory),
        "runs": [_figures(run) for run in runs],
    }


def _versions() -> dict[str, str]:
    found = {"headroom": _pack_version(), "comfyui": comfyui_version(),
             "python": platform.python_version(),
             "system": f"{platform.system()} {platform.release()} {platform.machine()}",
             "torch": torch.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _pack_version() -> str:
    text = PROJECT.read_text(encoding="utf-8")
    found = re.search(r'^version = "([\w.]+)"', text, re.MULTILINE)
    return found[1] if found else "unknown"


def _flags(words: Sequence[str]) -> list[str]:
    """Return the server's flags with the numbers that follow them; other values are left out.

    An address is none: that of `--listen` is the user's.
    """
    return [word.split("=")[0] for word in words
            if word.startswith("--") or (_number(word) and word.count(".") < 2)]


def _figures(data: Any, name: str = "", kept: frozenset[str] = KEPT) -> Any:
    """Return `data` with its figures, and only those strings that a report may have."""
    if isinstance(data, str):
        if name == "error":
            return _SIZES.findall(data)
        is_id = _number(data) if name.endswith("node_id") else _uuid(data)
        return data if name in kept or is_id else LEFT_OUT
    # The values in a sentence may be names of nodes or files.
    kept = kept & {"template"} if name == "values" else kept
    if isinstance(data, Mapping):
        found = {key: _figures(value, key, kept) for key, value in data.items()}
        return {key: value for key, value in found.items() if value is not LEFT_OUT}
    if isinstance(data, (list, tuple)):
        parts = [_figures(part, "", kept) for part in data]
        return [part for part in parts if part is not LEFT_OUT]
    return data
