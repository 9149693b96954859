"""How a row of published files names the class of ComfyUI's that it is made of."""

import json
from typing import Any, NamedTuple

Made = tuple[Any, ...]
LDM = "comfy.ldm."
DIFFUSION = "model.diffusion_model."  # before the names of a diffusion model in a checkpoint


def of(path: str, **settings: Any) -> Made:
    """A class by its "module:Class" below LDM, made with these settings; others by whole paths."""
    whole = path if path.startswith(("comfy", "torch.")) else LDM + path
    return ("of_class", whole, json.dumps(settings, sort_keys=True))


class Part(NamedTuple):
    """Tensors of one model in a file: the prefix of their names, who knows the shapes, the type."""

    prefix: str
    made_by: Made
    dtype: str


def one(made_by: Made, dtype: str) -> tuple[Part, ...]:
    return (Part("", made_by, dtype),)
