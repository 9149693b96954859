"""Headroom in a dry run: weights are zeros that nobody need read, and every run is the first."""

import sys
from collections.abc import Iterator
from types import ModuleType


def look_at_no_weight() -> None:
    """Let Cast bf16 take zeros as read, which took up to two minutes: every dtype holds them."""
    for module in _parts("cast.tensor"):
        module.is_exact = _always  # type: ignore[attr-defined]


def forget_lessons() -> None:
    """Let OOM Guard begin as in a server that has just been started."""
    for module in _parts("guard.lessons"):
        module.forget_all()


def _parts(name: str) -> Iterator[ModuleType]:
    """The pack's module of that name; ComfyUI imports packs under their paths."""
    for full, module in list(sys.modules.items()):
        if full.endswith(f"headroom.{name}"):
            yield module


def _always(_source: object, _target: object) -> bool:
    return True
