"""Headroom in a dry run: weights are zeros that nobody need read, and every run is the first."""

import sys
from collections.abc import Iterator
from functools import wraps
from inspect import signature
from types import ModuleType
from typing import Any

WORDS = 4  # that a language model writes


def look_at_no_weight() -> None:
    """Let Cast bf16 take zeros as read, which took up to two minutes: every dtype holds them."""
    for module in _parts("cast.tensor"):
        module.is_exact = _always  # type: ignore[attr-defined]


def forget_lessons() -> None:
    """Let OOM Guard begin as in a server that has just been started."""
    for module in _parts("guard.lessons"):
        module.forget_all()


def write_few_words() -> None:
    """Let a language model end its text early: each further word takes what the first ones took.

    What it keeps of all words (its cache) is as large as for the length that was asked for.
    """
    module = sys.modules.get("comfy.text_encoders.llama")
    kind = getattr(module, "BaseGenerate", None)
    generate = getattr(kind, "generate", None)
    if kind is None or generate is None or getattr(generate, "_headroom_dry", False):
        return

    @wraps(generate)
    def shortened(*args: Any, **kwargs: Any) -> Any:
        given = signature(generate).bind(*args, **kwargs)
        if "stop_tokens" in given.signature.parameters:
            given.arguments["stop_tokens"] = _AfterFew()
        return generate(*given.args, **given.kwargs)

    shortened._headroom_dry = True  # type: ignore[attr-defined]
    kind.generate = shortened


class _AfterFew(list[int]):
    """Tokens that end a text, of which every one is, once WORDS have been written."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __contains__(self, _token: object) -> bool:
        self.asked += 1
        return self.asked >= WORDS


def _parts(name: str) -> Iterator[ModuleType]:
    """The pack's module of that name; ComfyUI imports packs under their paths."""
    for full, module in list(sys.modules.items()):
        if full.endswith(f"headroom.{name}"):
            yield module


def _always(_source: object, _target: object) -> bool:
    return True
