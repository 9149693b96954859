"""Six workflows of ComfyUI's own template package, with small models and pictures swapped in.

They are read from the package that is installed with ComfyUI; nothing of them is kept here.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import NotHere
from .node_info import NodeInfo
from .template_package import PACKAGE, installed
from .ui_prompt import api_prompt

Json = dict[str, Any]
TEMPLATES = (
    "default", "image2image", "inpaint_example", "inpaint_model_outpainting",
    "hiresfix_latent_workflow", "latent_upscale_different_prompt_model",
)
CHECKPOINT = "v1-5-pruned-emaonly-fp16.safetensors"
# What a small machine can run, by input; sizes in pixels.
SMALLER = {"image": "example.png", "steps": 1, "width": 128,
           "height": 128, "megapixels": 0.02}


def template_prompt(name: str, infos: Mapping[str, NodeInfo], checkpoints: Sequence[str]) -> Json:
    """The API prompt of one template with the smaller values; NotHere where it is not installed.

    Where it loads several checkpoints, the first of them is the first of `checkpoints`, and so on.
    """
    prompt = api_prompt(json.loads(template_file(name).read_text(encoding="utf-8")), infos)
    own = list(dict.fromkeys(node["inputs"]["ckpt_name"] for node in prompt.values()
                             if isinstance(node["inputs"].get("ckpt_name"), str)))
    named = {one: checkpoints[min(number, len(checkpoints) - 1)] for number, one in enumerate(own)}
    return {key: {**node, "inputs": _smaller(node["inputs"], named)}
            for key, node in prompt.items()}


def _smaller(inputs: Json, checkpoints: Mapping[str, str]) -> Json:
    small = {name: SMALLER[name] if name in SMALLER and not isinstance(value, list) else value
             for name, value in inputs.items()}
    named = small.get("ckpt_name")
    if isinstance(named, str):  # not a wire
        small["ckpt_name"] = checkpoints[named]
    return small


def template_file(name: str) -> Path:
    """The file of a template, in whichever part of the package it lies."""
    site = installed()
    if site is None:
        raise NotHere(f"{PACKAGE} is not installed")
    found = sorted(site.glob(f"{PACKAGE}*/templates/{name}.json"))
    if not found:
        raise NotHere(f"this {PACKAGE} has no template {name}")
    return found[0]
