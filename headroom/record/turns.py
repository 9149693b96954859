"""How much each turn of a loop adds to memory, and the node in the loop that adds most.

In each turn a loop runs its nodes under new ids, which all belong to one node on the canvas.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..base.device import MIB
from ..host.types import NodeLabel
from .memory import Reading
from .nodes import NodeRecord

MIN_TURNS = 5
MIN_BYTES = MIB  # in each turn


class Growth(NamedTuple):
    """By how much memory grew in each of `turns` turns; `node` added most of it."""

    what: str  # "RAM" or "VRAM"
    bytes_a_turn: int
    turns: int
    node: NodeLabel


def growths(records: Iterable[NodeRecord], device: int) -> list[Growth]:
    """Return what grew in every turn: RAM, and the VRAM of the device of this number.

    The first turn does not count: models are loaded in it.
    """
    turns: dict[str, list[NodeRecord]] = {}
    for record in records:
        if record.before is not None and record.after is not None:
            turns.setdefault(record.info.display_node_id, []).append(record)
    loops = [found[1:] for found in turns.values() if len(found) >= MIN_TURNS]
    return [growth for what in ("RAM", "VRAM")
            if (growth := _growth(what, loops, device)) is not None]


def _growth(what: str, loops: Sequence[list[NodeRecord]], device: int) -> Growth | None:
    best: tuple[int, list[NodeRecord]] | None = None
    rate = 0
    for found in loops:
        levels = [(_level(what, one.before, device), _level(what, one.after, device))
                  for one in found]
        known = [(before, after) for before, after in levels
                 if before is not None and after is not None]
        if len(known) < len(levels):
            continue
        rate = max(rate, rate_of([after for _, after in known]))
        own = sum(after - before for before, after in known)
        if best is None or own > best[0]:
            best = own, found
    if best is None or rate < MIN_BYTES:
        return None
    return Growth(what, rate, len(best[1]) + 1, best[1][0].info)


def rate_of(levels: Sequence[int]) -> int:
    """Return the growth of a turn (or run), as far as both halves of the turns show it."""
    middle, last = (len(levels) - 1) // 2, len(levels) - 1
    first_half = (levels[middle] - levels[0]) // max(middle, 1)
    return min(first_half, (levels[last] - levels[middle]) // max(last - middle, 1))


def _level(what: str, reading: Reading | None, device: int) -> int | None:
    if reading is None:
        return None
    if what == "RAM":
        return reading.rss_bytes
    return reading.devices[device].used_bytes if device < len(reading.devices) else None
