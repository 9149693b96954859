"""Make room in RAM step by step, as little as needed; a prompt may be running."""

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..base.device import MIB
from ..base.environment import count_of
from ..base.ram import ram_room_bytes, ram_total_bytes, trim_heap
from ..base.said import Said, said
from ..host.adapter import current_host

VARIABLE = "HEADROOM_RAM_FREE_MIB"
SETTING = "Headroom.Server.KeepRamFree"
SHARE, AT_MOST_MIB = 0.02, 1024  # of RAM, if nobody sets how much must stay free
GAINED = {  # by the action of a step
    "ram cache": "RAM was short: ComfyUI's cache dropped results of other workflows, {gained_mib} "
                 "more are left",
    "ram pins": "RAM was short: unused pinned memory was freed, {gained_mib} more are left",
    "ram heap": "RAM was short: unused heap pages went back to the system, {gained_mib} more are "
                "left",
}


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
    for action, work in [*steps, ("ram heap", _collect_and_trim)]:
        missing = wanted_bytes - ram_room_bytes()
        if missing <= 0:
            return
        if (step := _step(action, partial(work, missing))) is not None:
            yield step


def trim() -> Step | None:
    """Return unused heap pages to the system; None if there were none. For any thread."""
    return _step("ram heap", trim_heap)


def _collect_and_trim(_: int) -> None:
    gc.collect()
    trim_heap()


def _step(action: str, work: Callable[[], object]) -> Step | None:
    """Do some work, and return the step; None if no more RAM is left then."""
    before = ram_room_bytes()
    work()
    gained = ram_room_bytes() - before
    return Step(action, said(GAINED[action], gained_mib=gained / MIB)) if gained >= MIB else None
