"""The module that a function or an object comes from, by a name that shows its owner."""

import functools
from typing import Any

_EXTRA = "comfy_extras"


def module_of(part: Any) -> str:
    """Return the name of the module that defines a function, or the class of another object.

    ComfyUI imports its extra nodes under their paths; they are named as a package would name them:
    "comfy_extras.nodes_sag".
    """
    while isinstance(part, functools.partial):
        part = part.func
    name = str(getattr(part, "__module__", None) or type(part).__module__).replace("\\", "/")
    _, found, file = name.rpartition(f"/{_EXTRA}/")
    return f"{_EXTRA}.{file}" if found else name
