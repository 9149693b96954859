"""Amounts and times as the panel and the badges write them."""

from __future__ import annotations

from headroom.advise import words


def shown_mib(mib: float) -> str:
    """An amount as the panel and the badges write it."""
    return words.short_text(mib * 2**20)


def growth_text(growth_mib: float, level_mib: float) -> str:
    """A growth beside its level as the badges write it."""
    (plus, unit), (level, other) = (shown_mib(each).split(" ") for each in (growth_mib, level_mib))
    return f"+{plus}{'' if unit == other else f' {unit}'}, {level} {other} in all"


def seconds_text(seconds: float) -> str:
    """A time below a minute as the panel and the badges write it."""
    if seconds < 0.0995:
        return f"{int(seconds * 1000 + 0.5)} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{int(seconds + 0.5)} s"
