"""Attributes of torch that are replaced while the simulated GPU is switched on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """Replaces attributes and can put all of them back, last one first."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any]] = []
        self._calls: list[tuple[Callable[[Any], Any], Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`."""
        self._done.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def call(self, setter: Callable[[Any], Any], value: Any, before: Any) -> None:
        """Change a setting by its function, from `before` to `value`."""
        self._calls.append((setter, before))
        setter(value)

    def undo(self) -> None:
        """Put everything back as it was."""
        for setter, before in reversed(self._calls):
            setter(before)
        self._calls.clear()
        while self._done:
            owner, name, value = self._done.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
