"""Make room in RAM step by step, as little as needed; a prompt may be running."""

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..base.device import MIB
from ..base.environment import count_of
from ..base.ram import ram_room_bytes, ram_total_bytes, trim_heap
from ..base.said import Said, said
from ..host.adapter import current_host

VARIABLE = "HEADROOM_RAM_FREE_MIB"
SETTING = "Headroom.Server.KeepRamFree"
SHARE, AT_MOST_MIB = 0.02, 1024  # of RAM, if nobody sets how much must stay free


def wanted_bytes(environment: Mapping[str, str], browser: Mapping[str, Any]) -> int:
    """Return how much RAM must stay free; 0: nothing is done for it."""
    asked = count_of(environment, VARIABLE, "MiB (0: never)")
    if asked is not None:
        return asked * MIB
    if browser.get(SETTING) is False:
        return 0
    return min(int(ram_total_bytes() * SHARE), AT_MOST_MIB * MIB)


class Step(NamedTuple):
    """What was done, and a sentence that says how much RAM this freed."""

    action: str
    text: Said


def make_room(wanted_bytes: int) -> Iterator[Step]:
    """Take one step after another until `wanted_bytes` of RAM are free; yield the ones that helped.

    ComfyUI's cache frees results of other workflows, unused pinned memory is freed, then the heap
    is trimmed; each only if ComfyUI has a function for it. Call it in the thread of a prompt
    between two nodes, or while none runs. It costs a garbage collection.
    """
    host = current_host()
    steps: list[tuple[str, Callable[[int], object]]] = []
    if host is not None:
        steps = [("ram cache", host.release_cached_results), ("ram pins", host.release_idle_pins)]
    for action, work in [*steps, ("ram heap", lambda _: trimmed(collect=True))]:
        before = ram_room_bytes()
        if before >= wanted_bytes:
            return
        work(wanted_bytes - before)
        gained = ram_room_bytes() - before
        if gained >= MIB:
            yield Step(action, _told(action, gained))


def trimmed(collect: bool = False) -> int:
    """Return unused heap pages to the system; return how many more bytes of RAM are free then.

    Without `collect` it can be called in any thread.
    """
    before = ram_room_bytes()
    if collect:
        gc.collect()
    trim_heap()
    return max(0, ram_room_bytes() - before)


def trim_step(gained_bytes: int) -> Step:
    """Return the step for a trimmed heap."""
    return Step("ram heap", _told("ram heap", gained_bytes))


def _told(action: str, gained_bytes: int) -> Said:
    values = {"gained_mib": gained_bytes / MIB}
    if action == "ram cache":
        return said("RAM was short: ComfyUI's cache dropped results of other workflows, "
                    "{gained_mib} more are left", **values)
    if action == "ram pins":
        return said("RAM was short: unused pinned memory was freed, {gained_mib} more are left",
                    **values)
    return said("RAM was short: unused heap pages went back to the system, {gained_mib} more are "
                "left", **values)
