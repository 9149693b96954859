"""The bundled workflows: six files that the canvas opens, and the prompts that it makes of them.

The files are the source: change one on the canvas and save it, then export its prompt to
`lab/prompts/`. Only the measured figures in their notes are written (`tools.figures`).
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UI_FOLDER, API_FOLDER = ROOT / "workflows", ROOT / "lab" / "prompts"
WORKFLOWS = (
    "start_here",
    "diffsynth_prompt_loop",
    "onediff_mixed_sizes",
    "infiniteyou_720p_bf16",
    "diffusers_encode_only",
    "sd_controlnet_switch",
)
Json = dict[str, Any]


def workflow(name: str) -> Json:
    """The file that the canvas opens."""
    return _read(UI_FOLDER / f"{name}.json")


def published_prompt(name: str) -> Json:
    """The API prompt that the canvas makes of it."""
    return _read(API_FOLDER / f"{name}.json")


def written(data: Json) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _read(path: Path) -> Json:
    data: Json = json.loads(path.read_text(encoding="utf-8"))
    return data
