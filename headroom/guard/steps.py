"""The rungs that need no knowledge of the failed call: dead memory, other models, own weights."""

import gc
from collections.abc import Callable, Sequence
from typing import Any

from ..base.device import MIB, clear_workspaces, same_device
from ..base.ram import trim_heap
from ..base.said import said
from ..host.adapter import current_host, guard_host, return_cache
from ..measure.report import mib_text
from ..models.find import FoundModel
from ..models.unload import others, unload_models
from .choose import NOTABLE_BYTES, RecoveryStep, bus_seconds
from .explain import Subject, explain
from .ladder import Ladder
from .shortage import Shortage

Patchers = Callable[[], Sequence[Any]]

_SPARE = 1.5  # offload this many times what was missing: the call will ask for more tensors
_CALLS_OF_A_RUN = 20  # what is done once is shared by about so many calls


def tidy() -> None:
    """Collect garbage and return cached memory to the driver, after a failure and every rung.

    cuBLAS's workspaces with it: 8 MiB of them keep a whole block of 20 MiB, and the next call makes
    them anew where it finds room.
    """
    guard = guard_host()
    if guard is not None:
        guard.settle_streaming()
    gc.collect()
    clear_workspaces()
    return_cache()


def ladder_of(
    subject: Subject, steps: Sequence[RecoveryStep],
    before_retry: Callable[[], None] = lambda: None,
    repair: Callable[[], object] | None = None,
    noted: Callable[[Shortage], None] = lambda _: None,
    needs: Callable[[], float] = lambda: 0.0,
) -> Ladder:
    """Return the ladder of `steps` for one call, with what surrounds every rung.

    Without a `repair` of its own the models of `subject` are unloaded: the call loads them anew.
    """
    guard = guard_host()
    return Ladder(
        steps=steps, max_attempts=subject.options.max_attempts, tidy=tidy,
        explain=explain(subject), before_retry=before_retry,
        repair=repair or (lambda: unload_models(_found(subject.patchers))),
        check_interrupt=guard.check_interrupt if guard is not None else lambda: None,
        used=[patcher.load_device for patcher in subject.patchers],
        prefer=subject.options.prefer, noted=noted,
        needs=needs,
    )


class ReturnMemory(RecoveryStep):
    """Rung 1: return cached and dead memory. The tidying up after a failure does the work."""

    name = said("step_tidy", "returning cached and dead memory")
    is_tidying = True

    def __init__(self) -> None:
        self._done = False

    def spares(self, shortage: Shortage) -> int | None:
        """Enough where all that was free was enough, only not in one piece or not yet dead."""
        if self._done:
            return 0
        missing = shortage.missing_bytes
        return missing if missing is None else int(missing <= 0)

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        self._done = self.is_spent = True
        if shortage.where == "RAM":
            trim_heap()
        return said("guard_tidied", "returned cached and dead memory")

    def freed_already(self, shortage: Shortage) -> int:
        return shortage.garbage_bytes

    def why_not(self, shortage: Shortage) -> str:
        return said("why_less_free", "what was free was less than the call asked for")


class UnloadOthers(RecoveryStep):
    """Rung 2: unload every model on the full device that the failed call does not use.

    Helps nothing when RAM is what ran out, since the weights would go there.
    """

    name = said("step_unload", "unloading other models")

    def __init__(self, in_use: Patchers, taken: Callable[[], None] = lambda: None) -> None:
        self._in_use = in_use
        self._taken = taken

    def spares(self, shortage: Shortage) -> int | None:
        host, patchers = current_host(), [model.handle for model in self._others(shortage)]
        pages = [p for p in patchers if host is not None and host.is_dynamic(p)]
        total = _weights_bytes(patchers)
        if shortage.missing_bytes is not None:  # pages yield by themselves; some did not
            in_pages = _weights_bytes(pages)
            total -= in_pages - min(in_pages, shortage.stuck_bytes)
        return total if total >= NOTABLE_BYTES else 0

    def seconds(self, shortage: Shortage) -> float:
        return bus_seconds(self.spares(shortage) or 0) / _CALLS_OF_A_RUN

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        loaded = self._others(shortage)
        if not loaded:
            return None
        self._taken()
        unload_models(loaded)
        count = len(loaded)
        text = f"unloaded {count} other model{'s' if count > 1 else ''}"
        return said("guard_unloaded", text, count=count)

    def why_not(self, shortage: Shortage) -> str:
        if shortage.where == "RAM":
            return said("why_into_ram", "their weights would go to RAM")
        spared = self.spares(shortage)
        if spared:
            return said("why_held", f"they held {mib_text(spared)}", held_mib=spared / MIB)
        return said("why_no_other", "no other model was loaded there")

    def _others(self, shortage: Shortage) -> list[FoundModel]:
        if shortage.where == "RAM":
            return []
        found = others(_found(self._in_use()), shortage.device)
        return [model for model in found if _weights_bytes([model.handle]) > 0]


class OffloadWeights(RecoveryStep):
    """Rung 3: offload part of the weights of the models in use, then all that can be streamed."""

    name = said("step_offload", "offloading its own weights")

    def __init__(self, in_use: Patchers) -> None:
        self._in_use = in_use
        self._is_second = False

    def spares(self, shortage: Shortage) -> int | None:
        if guard_host() is None or shortage.where == "RAM":
            return 0
        loaded = _weights_bytes(self._on(shortage))
        return loaded if loaded >= NOTABLE_BYTES else 0

    def seconds(self, shortage: Shortage) -> float:
        return bus_seconds(self._wanted(shortage) or 0)

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        guard = guard_host()
        if guard is None:
            return None
        wanted = self._wanted(shortage) if tries_left > 1 else None
        self._is_second = True
        freed = guard.offload_weights(self._on(shortage), wanted)
        self.is_spent = wanted is None or freed < NOTABLE_BYTES
        if freed <= 0:
            return None
        text = f"offloaded {mib_text(freed)} of its own weights"
        return said("guard_offloaded", text, freed_mib=freed / MIB)

    def why_not(self, shortage: Shortage) -> str:
        if shortage.where == "RAM":
            return said("why_into_ram", "they would go to RAM")
        loaded = _weights_bytes(self._on(shortage))
        if loaded >= NOTABLE_BYTES:
            return said("why_loaded", f"{mib_text(loaded)} were loaded", loaded_mib=loaded / MIB)
        return said("why_in_ram", "they were in RAM already, but for what each layer needs")

    def _wanted(self, shortage: Shortage) -> int | None:
        """Return how much to offload; None for everything, the second time in any case."""
        if self._is_second or shortage.tries:
            return None
        loaded = _weights_bytes(self._on(shortage))
        missing = shortage.missing_bytes
        if missing is None:
            missing = shortage.asked_bytes or 0
        part = max(int(missing * _SPARE), loaded // 4)
        return part if part <= loaded // 2 else None

    def _on(self, shortage: Shortage) -> list[Any]:
        """Return the patchers in use whose weights are on the full device and stay away from it.

        The pages of a dynamic model come back with the next call, and had gone if that could help.
        """
        host, device = current_host(), shortage.device
        return [p for p in self._in_use() if host is not None and not host.is_dynamic(p)
                and (device is None or same_device(p.load_device, device))]


def _found(patchers: Sequence[Any]) -> list[FoundModel]:
    return [FoundModel("patcher", patcher) for patcher in patchers]


def _weights_bytes(patchers: Sequence[Any]) -> int:
    """Return the bytes of these models on their GPUs that leave when they are unloaded.

    Of a dynamic model these are its pages; the small weights that it always keeps do not count.
    """
    host = current_host()
    if host is None:
        return 0
    return sum(host.unloadable_bytes(entry) for entry in host.entries_of(patchers))
