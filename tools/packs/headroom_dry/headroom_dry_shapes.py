"""Shapes of published models by the classes of the ComfyUI that runs here, without memory."""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parents[2]


def shapes(wanted: Iterable[list[Any]]) -> list[dict[str, Any]]:
    """For each function of public_architectures.py and its arguments: shapes by weight."""
    import torch

    with torch.device("meta"), layers_with_weights():
        return [getattr(_architectures(), name)(*args) for name, *args in wanted]


@contextmanager
def layers_with_weights() -> Iterator[None]:
    """Let ComfyUI make layers as it does without dynamic VRAM, which gives them weights later."""
    memory = sys.modules.get("comfy.memory_management")
    lazily = getattr(memory, "aimdo_enabled", None)
    if lazily:
        memory.aimdo_enabled = False  # type: ignore[union-attr]
    try:
        yield
    finally:
        if lazily:
            memory.aimdo_enabled = lazily  # type: ignore[union-attr]


@lru_cache(maxsize=1)
def _architectures() -> ModuleType:
    """By their files: with this folder in sys.path its modules could hide those of other packs."""
    _module("architectures")
    _module("public_encoders")
    return _module("public_architectures")


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
