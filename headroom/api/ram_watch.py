"""RAM is made free before the kernel ends the server for want of it: steps, then idle models."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..actions.make_room import Step, make_room, trim_step, trimmed
from ..actions.spare_ram import Spared, spare_ram, used_by
from ..base.device import MIB, mib_text
from ..base.environment import count_of
from ..base.ram import ram_room_bytes, ram_total_bytes
from ..base.refusals import Refused
from ..base.said import said
from ..measure.journal import Action, note
from ..measure.snapshot import snapshot
from ..models.ram_held import SeldomHeld
from ..record.run import RamLow
from .gate import Gate
from .ram_stop import LAST_SECONDS, Node, RamFall, load_bytes, loading_nodes

log = logging.getLogger("headroom")

VARIABLE = "HEADROOM_RAM_FREE_MIB"
SETTING = "Headroom.Server.KeepRamFree"
# Between two looks while a prompt runs: where the last one predicted the end, else, with plenty.
NEAR_SECONDS, AMID_SECONDS, AMPLE_SECONDS = 0.05, 0.25, 1.0
# Between two looks while none does: a look is a millisecond of CPU, and others may take the RAM.
IDLE_SECONDS, SHORT_SECONDS = 10.0, 5.0
SHARE, AT_MOST_MIB = 0.02, 1024  # of RAM, where nobody says how much is to stay free
STOP_LOOKS = 4  # a stop takes as long as so many of them, where the processor is busy
LOW = 0.1  # of RAM: below it the record tells who held it
AMPLE, AMPLE_BYTES = 4, 8 * 2**30  # times what is to stay free; what no second can fill


def wanted_bytes(environment: Mapping[str, str], browser: Mapping[str, Any]) -> int:
    """Return how much RAM is to stay free, 0: nothing is done for it."""
    asked = count_of(environment, VARIABLE, "MiB (0: never)")
    if asked is not None:
        return asked * MIB
    if browser.get(SETTING) is False:
        return 0
    return min(int(ram_total_bytes() * SHARE), AT_MOST_MIB * MIB)


class RamWatch:
    """Looks at the RAM that is left (the tightest cgroup limit counts) and makes room in time.

    `prompts()` are those that run and wait, in API format. Models go to disk in the thread that
    runs prompts, before one begins and between two nodes, else through the gate, as HTTP would. In
    the middle of a node only unused heap pages go; where RAM keeps falling, `stop` interrupts the
    prompt.
    """

    def __init__(
        self, gate: Gate, loop: asyncio.AbstractEventLoop | None,
        prompts: Callable[[], Sequence[Mapping[str, Any]]], wanted: int,
        stop: Callable[[Node], bool] = lambda _: False, held: SeldomHeld | None = None,
    ) -> None:
        self._gate = gate
        self._loop = loop
        self._prompts = prompts
        self._wanted = wanted
        self._stop = stop
        self._held = held or SeldomHeld()
        self._lowest: tuple[str, int] | None = None  # what was left least, in which prompt
        self._stopped: str | None = None  # the prompt that was interrupted last
        self._fall = RamFall()
        self._tried = False  # in vain, since something happened
        self._said = False  # that nothing can go, since there was enough
        self._amid = threading.Event()  # a prompt runs
        self._trimmed = False  # the heap, since there was enough
        self._is_due = False  # room is to be made before the next node
        self._at: tuple[str | None, str | None] = (None, None)  # the prompt and node that run
        self._prompt: Mapping[str, Any] = {}  # the one that runs
        self._loading: frozenset[str] = frozenset()  # its nodes that load weights
        self._room = self._began_with = 0  # what was left at the last look; before that node
        self._looked_at, self._pause = float("-inf"), NEAR_SECONDS
        self._ample = max(AMPLE_BYTES, LOW * ram_total_bytes(), AMPLE * wanted)

    def start(self) -> None:
        """Start to look, where that is asked for: often amid a prompt, seldom after it.

        Before the first prompt the thread waits without a timeout: there is nothing to let go of.
        """
        if self._wanted:
            threading.Thread(target=self._wait, name="headroom RAM", daemon=True).start()

    def before_prompt(self) -> None:
        """Make room before the first node of a prompt, in the thread that runs it."""
        self.something_happens()
        self._at, self._lowest = (None, None), None
        self._prompt = next(iter(self._prompts()), {})
        self._loading = loading_nodes(self._prompt) if self._wanted else frozenset()
        self._amid.set()
        if not self._was_ample() and self._is_short():
            self._spare()

    def before_node(self, prompt_id: str, node_id: str) -> None:
        """Make room between two nodes, in the thread that runs them: where a look found too little,
        and for weights that the next one loads, which cannot be interrupted.
        """
        self._at = (prompt_id, node_id)
        load = load_bytes(self._prompt, node_id) if node_id in self._loading else 0
        if self._is_due or (load and ram_room_bytes() < self._wanted + load):
            self._is_due = False
            self._spare(load)
            self._room = ram_room_bytes()
        self._began_with = self._room

    def prompt_is_over(self) -> None:
        """A prompt has ended; look less often where none follows."""
        if not self._prompts():
            self._at = (None, None)
            self._amid.clear()
        self.something_happens()

    def after_prompt(self) -> tuple[str, RamLow, dict[str, Any] | None] | None:
        """Return in which prompt RAM nearly ran out, if it did, and who holds it now.

        To be called in the thread of the prompt after it, which waits for it: for 5 % of the time
        at most. None in the place of who holds it where it was looked up not long ago.
        """
        lowest, self._lowest = self._lowest, None
        if lowest is None or lowest[1] >= LOW * (total := ram_total_bytes()):
            return None
        return lowest[0], RamLow(lowest[1], total), self._held.now(snapshot())

    def something_happens(self) -> None:
        """A prompt begins or ends: other models may be idle now."""
        self._tried = False

    async def look(self) -> None:
        """Make room where it is short and no prompt runs or waits; else the next prompt will."""
        if not self._is_short() or self._tried:
            return
        try:
            await self._gate.act(self._spare)
        except Refused:
            return

    def look_amid(self) -> None:
        """Look while a node runs: unused heap pages go at once, all else before the next node.

        The prompt is stopped where less is left than is to stay free and a second would take it,
        or where a moment would, however much it is: frames may fill a GiB a second.
        """
        room = ram_room_bytes()
        prompt_id, node_id = self._at
        if prompt_id is not None and (self._lowest is None or room < self._lowest[1]):
            self._lowest = prompt_id, room
        now = time.monotonic()
        late = max(0.0, now - self._looked_at - self._pause)  # by so much others keep this waiting
        is_ending = self._fall.is_ending(now, room)
        is_last = is_ending and self._fall.seconds_left < LAST_SECONDS + STOP_LOOKS * late
        if not self._is_short(room) and not is_last:
            self._trimmed = self._is_due = False
            return
        if not self._trimmed and not is_last:
            self._trimmed = True
            if (gained := trimmed()) >= MIB:
                self._note(trim_step(gained))
        is_short = self._is_short()
        self._is_due = is_short and not self._tried
        if is_ending and (is_short or is_last) and prompt_id is not None and node_id is not None:
            node = Node(prompt_id, node_id, self._began_with - room)
            if prompt_id != self._stopped and self._stop(node):
                self._stopped = prompt_id

    def _wait(self) -> None:
        pause, seconds = threading.Event(), None
        while True:
            if self._amid.wait(seconds):
                self._pause = self._pause_seconds()
                pause.wait(self._pause)
                self.look_amid()
                seconds = AMID_SECONDS
                continue
            seconds = IDLE_SECONDS
            if self._is_short() and not self._tried and self._loop is not None:
                seconds = SHORT_SECONDS  # the gate may have refused
                try:
                    asyncio.run_coroutine_threadsafe(self.look(), self._loop).result()
                except RuntimeError:
                    return  # the server ends, and its loop has

    def _pause_seconds(self) -> float:
        if self._fall.may_end:
            return NEAR_SECONDS
        return AMPLE_SECONDS if self._room > self._ample else AMID_SECONDS

    def _was_ample(self) -> bool:
        """Return whether there was so much that a look a moment ago still holds."""
        return self._room > self._ample and time.monotonic() - self._looked_at < AMPLE_SECONDS

    def _is_short(self, room: int | None = None) -> bool:
        """`room`: bytes that are left, where they were just read, which takes a millisecond."""
        if self._wanted:
            self._room = ram_room_bytes() if room is None else room
            self._looked_at = time.monotonic()
        is_short = self._room < self._wanted
        self._said = self._said and is_short
        return is_short

    def _spare(self, load: int = 0) -> None:
        steps, wanted = 0, self._wanted + load
        try:
            for step in make_room(wanted):
                self._note(step)
                steps += 1
            before = ram_room_bytes()
            if before >= wanted:
                return
            with torch.inference_mode():
                is_used = used_by(self._prompts())
                if self._at[1] is not None:  # amid a prompt only what it is known not to use
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
            text = said("RAM was short: {count} idle models went to disk, with {moved_mib} of "
                        "weights", count=spared.count, moved_mib=spared.moved_bytes / MIB)
            note(Action(*self._at, "ram models", None, text))
        self._tried = self._said = not (spared.count or steps or load)

    def _note(self, step: Step) -> None:
        log.warning("[Headroom] %s", step.text)
        note(Action(*self._at, step.action, None, step.text))

    def _told(self, before: int, spared: Spared, load: int) -> str:
        beside = f" beside {mib_text(load)} for what the next node loads" if load else ""
        asked = (f"{mib_text(before)} of RAM were left, {mib_text(self._wanted)} are to stay free "
                 f"({VARIABLE}){beside}")
        if not spared.count:
            return f"{asked}: {spared.refusal or 'no idle model is left to go to disk'}"
        models = "idle model" if spared.count == 1 else "idle models"
        return (
            f"{asked}: {mib_text(spared.moved_bytes)} of {spared.count} {models} went to disk, "
            f"{mib_text(ram_room_bytes())} are left now"
        )
