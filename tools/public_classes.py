"""How a row of published files names the class of ComfyUI's that it is made of."""

import json
from typing import Any, NamedTuple

Made = tuple[Any, ...]
LDM = "comfy.ldm."


def of(path: str, **settings: Any) -> Made:
    return ("of_class", LDM + path, json.dumps(settings, sort_keys=True))


class Part(NamedTuple):
    """Tensors of one model in a file: the prefix of their names, who knows the shapes, the type."""

    prefix: str
    made_by: Made
    dtype: str


def one(made_by: Made, dtype: str) -> tuple[Part, ...]:
    return (Part("", made_by, dtype),)
