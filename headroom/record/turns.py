"""How much each turn of a loop adds to memory, and the node in the loop that adds most.

In each turn a loop runs its nodes under new ids, which all belong to one node on the canvas.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..base.device import MIB
from ..host.types import NodeLabel
from .memory import Reading, used_on
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
    """Return what grew in every turn: RAM, and the VRAM of the device of this number."""
    turns: dict[str, list[NodeRecord]] = {}
    for record in records:
        if record.before is not None and record.after is not None:
            turns.setdefault(record.info.display_node_id, []).append(record)
    return [growth for what in ("RAM", "VRAM")
            if (growth := _growth(what, turns.values(), device)) is not None]


def _growth(what: str, nodes: Iterable[list[NodeRecord]], device: int) -> Growth | None:
    found = []  # what a node adds itself, and the growth of memory in its turns
    for turns in nodes:
        # Models are loaded in the first turn, so it does not count.
        levels = [(_level(what, one.before, device), _level(what, one.after, device))
                  for one in turns[1:]]
        known = [(before, after) for before, after in levels
                 if before is not None and after is not None]
        if len(turns) >= MIN_TURNS and len(known) == len(levels):
            own = sum(after - before for before, after in known)
            rate = rate_of([after for _, after in known])
            found.append((own, Growth(what, rate, len(turns), turns[0].info)))
    rate = max((growth.bytes_a_turn for _, growth in found), default=0)
    if rate < MIN_BYTES:
        return None
    return max(found, key=lambda one: one[0])[1]._replace(bytes_a_turn=rate)


def _level(what: str, reading: Reading | None, device: int) -> int | None:
    if what == "RAM":
        return None if reading is None else reading.rss_bytes
    return used_on(reading, device)


def rate_of(levels: Sequence[int]) -> int:
    """Return the growth of a turn (or run), as far as both halves of the turns show it."""
    middle, last = (len(levels) - 1) // 2, len(levels) - 1
    first_half = (levels[middle] - levels[0]) // max(middle, 1)
    return min(first_half, (levels[last] - levels[middle]) // max(last - middle, 1))
