"""What to change where a run nearly filled the RAM that this process may have.

Findings are about the GPU's peak; this saves RAM, and nobody can say beforehand how much.
"""

from collections.abc import Callable
from typing import Any

from ..base.device import in_mib
from ..record.run import Run
from .finding import Finding, Kind, Saves
from .words import amounts, text_of

NEARLY_FULL = 0.85
LEAST_PINNED = 0.25  # of the peak


def about_ram(
    run: Run, limit_bytes: int, has_flag: Callable[[str], bool], pinned_bytes: int = 0
) -> list[dict[str, Any]]:
    """Return flags of this ComfyUI that keep less in RAM, where the record's peak speaks for them.

    `pinned_bytes`: what is pinned now.
    """
    peak = run.peak_rss_bytes or 0
    if peak < NEARLY_FULL * limit_bytes:
        return []
    kinds: list[tuple[Kind, str]] = [("ram_cache", "--cache-none")]
    # Where it can be turned off it is on, as long as nobody did that.
    if _streams(run) and not has_flag("--disable-fast-disk"):
        kinds.insert(0, ("ram_disk", "--fast-disk"))
    if pinned_bytes >= LEAST_PINNED * peak:
        kinds.insert(0, ("ram_pinned", "--disable-pinned-memory"))
    values = amounts(peak=peak, limit=limit_bytes, pinned=pinned_bytes)
    measured = {"peak_rss_mib": in_mib(peak), "limit_mib": in_mib(limit_bytes)}
    found = (Finding(kind, Saves(0, 0), {**values, "flag": flag}, measured, cost="seconds")
             for kind, flag in kinds if has_flag(flag))
    return [one.as_json(text_of(one)) for one in found]


def _streams(run: Run) -> bool:
    """Whether a model's weights came to the GPU page by page."""
    return any(held.model.is_dynamic for record in run.nodes.records.values()
               if record.after is not None for held in record.after.models)
