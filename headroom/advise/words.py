"""Advice as lines of text, and amounts in it."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any


def short_text(amount_bytes: float) -> str:
    """Return an amount as the panel writes it (`js/lib/format.js`): three digits at most."""
    mib = amount_bytes / 2**20
    amount, unit = (mib, "MiB") if mib < 999.5 else (mib / 1024, "GiB")
    step = "0.1" if amount < (9.95 if unit == "MiB" else 99.95) else "1"
    rounded = Decimal(amount).quantize(Decimal(step), ROUND_HALF_UP)
    return f"{rounded}".removesuffix(".0") + f" {unit}"


def lines_of(advice: Sequence[Mapping[str, Any]], most: int = 5) -> list[str]:
    """Return advice as numbered lines of text, with what each saves."""
    told = [f"{number}. {one['text']}" + (f" ({_saving(one)})" if one["saves_mib"][1] else "")
            for number, one in enumerate(advice[:most], 1)]
    if (more := len(advice) - most) > 0:
        told.append(f"and {more} more")
    return told


def _saving(one: Mapping[str, Any]) -> str:
    low, high = (short_text(mib * 2**20) for mib in one["saves_mib"])
    saves = (f"saves about {high}" if low == high else f"saves up to {high}"
             if one["saves_mib"][0] < 1 else f"saves {low} to {high}")
    if one["kind"] == "oom_guard":
        return f"{saves} of what it needs"
    if not (measured := one.get("measured_mib")):
        return saves
    return f"{saves}; it saved {short_text(measured['mib'] * 2**20)}"


def amounts(**named: int) -> dict[str, Any]:
    """Return amounts in bytes as text for a sentence, and as numbers for other languages."""
    return {name: short_text(amount) for name, amount in named.items()}
