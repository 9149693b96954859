"""Make RAM free before the kernel kills the server: step by step, then by moving idle models."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from ..actions.make_room import VARIABLE, Step, make_room, trim
from ..actions.spare_ram import Spared, spare_ram, used_by
from ..base.device import MIB, mib_text
from ..base.ram import ram_room_bytes, ram_total_bytes, swap_room_bytes
from ..base.said import Refused, said
from ..measure.journal import Action, note
from ..measure.snapshot import snapshot
from ..models.ram_held import SeldomHeld
from ..record.run import RamLow
from ..record.ticker import Steady
from .gate import Gate
from .ram_stop import LAST_SECONDS, Node, RamFall, load_bytes, loading_nodes

log = logging.getLogger("headroom")

# Between two readings while a prompt runs: after one that predicted the end; usually; if much is
# left.
NEAR_SECONDS, AMID_SECONDS, AMPLE_SECONDS = 0.05, 0.25, 1.0
# Between two readings while no prompt runs: one costs a millisecond of CPU; others may take RAM.
IDLE_SECONDS = 10.0
STOP_LOOKS = 4  # a stop can take as long as this many readings, on a busy processor
LOW = 0.1  # of RAM: below this, the record says who held it
AMPLE = 4  # times what must stay free
AMPLE_BYTES = 8 * 2**30  # more than can be filled in a second


@dataclass(eq=False)
class RamWatch:
    """Reads how much RAM is left (the tightest cgroup limit counts) and makes room in time.

    Models are moved to disk in the thread that runs prompts, before a prompt begins and between two
    nodes; else through the gate, as with HTTP. While a node runs, only unused heap pages are freed;
    if RAM keeps falling, the prompt is stopped.
    """

    gate: Gate
    loop: asyncio.AbstractEventLoop | None
    prompts: Callable[[], Sequence[Mapping[str, Any]]]  # that run and wait, in API format
    wanted: int  # bytes that must stay free; 0: nothing is measured
    stop: Callable[[Node], bool] = lambda _: False  # interrupts the running prompt

    def __post_init__(self) -> None:
        self._held = SeldomHeld()
        self._lowest: tuple[str, int] | None = None  # the prompt, and the least RAM that was left
        self._stopped: object = None  # the prompt and node that were interrupted last
        self._fall = RamFall()
        self._tried = False  # to make room, in vain; false after the next event
        self._said = False  # that nothing can be freed; false when RAM is enough
        self._amid = threading.Event()  # a prompt runs
        self._trimmed = False  # the heap; false when RAM is enough
        self._is_due = False  # room must be made before the next node
        self._at: tuple[str | None, str | None] = (None, None)  # the prompt and node that run
        self._prompt: Mapping[str, Any] = {}  # the one that runs
        self._loading: frozenset[str] = frozenset()  # its nodes that load weights
        self._room = 0  # what was left at the last reading
        self._began: tuple[int] | None = None  # what was left before that node; None between nodes
        self._at_loads = Steady("no room in RAM is made before a node")
        self._looked_at, self._pause = float("-inf"), NEAR_SECONDS
        self._ample = max(AMPLE_BYTES, LOW * ram_total_bytes(), AMPLE * self.wanted)

    def start(self) -> None:
        """Start to read, if the settings ask for it; nothing is read before the first prompt."""
        if self.wanted:
            threading.Thread(target=self._wait, name="headroom RAM", daemon=True).start()

    def before_prompt(self) -> None:
        """Make room before the first node of a prompt, in the thread that runs it."""
        self._tried = False
        self._at, self._lowest, self._fall = (None, None), None, RamFall()
        self._began = None
        self._prompt = next(iter(self.prompts()), {})
        self._loading = loading_nodes(self._prompt) if self.wanted else frozenset()
        self._amid.set()
        if self._stopped is not None:  # its memory is free in the heap, not yet in the system
            self._stopped = None
            self._trim()
        is_new = time.monotonic() - self._looked_at < AMPLE_SECONDS  # the last reading
        if not (is_new and self._room > self._ample) and self._is_short():
            self._spare()

    def before_node(self, prompt_id: str, node_id: str) -> None:
        """Make room between two nodes, in the thread that runs them: if a reading found too little,
        and for weights that the next node loads, because a load cannot be interrupted. An error in
        it does not end the prompt.
        """
        self._began = None
        left, self._at = self._at[1], (prompt_id, node_id)
        if self._is_due or left in self._loading or node_id in self._loading:
            self._at_loads.call(self._before_load, left, node_id)
        self._began = (self._room,)

    def _before_load(self, left: str | None, node_id: str) -> None:
        if left in self._loading:  # that load has ended: its fall is not this node's
            self._fall, self._room = RamFall(), ram_room_bytes()
        load = load_bytes(self._prompt, node_id) if node_id in self._loading else 0
        if self._is_due or (load and ram_room_bytes() < self.wanted + load):
            self._is_due = False
            self._spare(load)
            self._room = ram_room_bytes()

    def prompt_is_over(self) -> None:
        """A prompt has ended; read less often if none follows."""
        if not self.prompts():
            self._at = (None, None)
            self._amid.clear()
        self._tried = False  # other models may be idle now

    def after_prompt(self) -> tuple[str, RamLow, dict[str, Any] | None] | None:
        """Return the prompt in which RAM nearly ran out, if it did, and who holds it now.

        Call it in the thread of the next prompt, which waits for it: for at most 5 % of the time.
        Who holds RAM is None if it was looked up not long ago.
        """
        lowest, self._lowest = self._lowest, None
        if lowest is None or lowest[1] >= LOW * (total := ram_total_bytes()):
            return None
        return lowest[0], RamLow(lowest[1], total), self._held.now(snapshot())

    async def look(self) -> None:
        """Make room if RAM is short and no prompt runs or waits; else the next prompt makes it."""
        if self._is_short() and not self._tried:
            with suppress(Refused):
                await self.gate.act(self._spare)

    def look_amid(self) -> None:
        """Read while a node runs: free unused heap pages now, everything else before the next node.

        The prompt is stopped if less is left than must stay free and a second would take the rest,
        or if 0.3 s would take it, however much it is: frames may fill a GiB in a second. The rest
        includes swap: while there is some, the system continues, if slowly.
        """
        began, room = self._began, ram_room_bytes()
        place = prompt_id, node_id = self._at
        if prompt_id is not None and (self._lowest is None or room < self._lowest[1]):
            self._lowest = prompt_id, room
        now = time.monotonic()
        late = max(0.0, now - self._looked_at - self._pause)  # others kept this thread waiting
        is_ending = self._fall.is_ending(now, room + swap_room_bytes())
        is_last = is_ending and self._fall.seconds_left < LAST_SECONDS + STOP_LOOKS * late
        if not self._is_short(room) and not self._fall.may_end:
            self._trimmed = self._is_due = False
            return
        if not self._trimmed:
            self._trimmed = True
            if self._trim():
                return  # the next reading tells whether that is enough
        is_short = self._is_short()
        self._is_due = is_short and not self._tried
        if self._began is not began or began is None or prompt_id is None or node_id is None:
            return  # between two nodes, or it was another node's fall
        if is_ending and (is_short or is_last):
            node = Node(prompt_id, node_id, began[0] - room)
            if place != self._stopped and self.stop(node):  # a node may catch it: once for each
                self._stopped = place

    def _wait(self) -> None:
        pause, seconds = threading.Event(), None
        steady = Steady("RAM could not be watched; it is tried again")
        while True:
            if self._amid.wait(seconds):
                self._pause = self._pause_seconds()
                pause.wait(self._pause)
                steady.call(self.look_amid)
                seconds = AMID_SECONDS
            else:
                seconds = IDLE_SECONDS
                steady.call(self._look_idle)

    def _look_idle(self) -> None:
        if self._is_short() and not self._tried and not (
                self.loop is None or self.loop.is_closed()):
            asyncio.run_coroutine_threadsafe(self.look(), self.loop).result()

    def _pause_seconds(self) -> float:
        if self._fall.may_end:
            return NEAR_SECONDS
        return AMPLE_SECONDS if self._room > self._ample else AMID_SECONDS

    def _is_short(self, room: int | None = None) -> bool:
        """`room`: bytes that are left, if they were just read, which takes a millisecond."""
        if self.wanted:
            self._room = ram_room_bytes() if room is None else room
            self._looked_at = time.monotonic()
        is_short = self._room < self.wanted
        self._said = self._said and is_short
        return is_short

    def _spare(self, load: int = 0) -> None:
        steps, wanted = 0, self.wanted + load
        try:
            for step in make_room(wanted):
                self._note(step)
                steps += 1
            before = ram_room_bytes()
            if before >= wanted:
                return
            with torch.inference_mode():
                is_used = used_by(self.prompts())
                if self._at[1] is not None:  # during a prompt only what it certainly does not use
                    spared = spare_ram(wanted, lambda one: is_used(one) is not False)
                else:
                    spared = spare_ram(wanted, is_used)
        except Exception:
            log.exception("[Headroom] room could not be made though RAM is short")
            self._tried = True
            return
        if spared.count or not (self._said or load):
            log.warning("[Headroom] %s", self._told(before, spared, load))
        if spared.count:
            text = said("RAM was short: idle models went to disk: {count}, with {moved_mib} of "
                        "weights", count=spared.count, moved_mib=spared.moved_bytes / MIB)
            note(Action(*self._at, "ram models", None, text))
        self._tried = self._said = not (spared.count or steps or load)

    def _trim(self) -> bool:
        """Return unused heap pages to the system, and whether there were any."""
        if (step := trim()) is not None:
            self._note(step)
        return step is not None

    def _note(self, step: Step) -> None:
        log.warning("[Headroom] %s", step.text)
        note(Action(*self._at, step.action, None, step.text))

    def _told(self, before: int, spared: Spared, load: int) -> str:
        beside = f" beside {mib_text(load)} for what the next node loads" if load else ""
        asked = (f"{mib_text(before)} of RAM were left, {mib_text(self.wanted)} are to stay free "
                 f"({VARIABLE}){beside}")
        if not spared.count:
            return f"{asked}: {spared.refusal or 'no idle model is left to go to disk'}"
        models = "idle model" if spared.count == 1 else "idle models"
        return (
            f"{asked}: {mib_text(spared.moved_bytes)} of {spared.count} {models} went to disk, "
            f"{mib_text(ram_room_bytes())} are left now"
        )
