"""Idle models go to disk before the kernel ends the server for want of RAM."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..actions.spare_ram import IsUsed, Spared, spare_ram
from ..base.device import MIB, mib_text
from ..base.environment import count_of
from ..base.graph import Graph
from ..base.ram import ram_room_bytes
from ..base.refusals import Refused
from ..host.adapter import current_host, host_registry
from .gate import Gate

log = logging.getLogger("headroom")

VARIABLE = "HEADROOM_RAM_FREE_MIB"
LOOK_SECONDS = 5.0


class RamWatch:
    """Looks at the RAM that is left (the tightest cgroup limit counts) and makes room in time.

    `prompts()` are those that run and wait, in API format. Acts between prompts only: before one
    begins, in the thread that runs them, else through the gate, as HTTP would.
    """

    def __init__(
        self, gate: Gate, loop: asyncio.AbstractEventLoop | None,
        prompts: Callable[[], Sequence[Mapping[str, Any]]],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._gate = gate
        self._loop = loop
        self._prompts = prompts
        self._wanted = MIB * (count_of(environment, VARIABLE, "MiB (0: never)") or 0)
        self._tried = False  # in vain, since something happened
        self._said = False  # that nothing can go, since there was enough

    def start(self) -> None:
        """Start to look every few seconds, where that is asked for."""
        if self._wanted:
            threading.Thread(target=self._wait, name="headroom RAM", daemon=True).start()

    def before_prompt(self) -> None:
        """Make room before the first node of a prompt, in the thread that runs it."""
        self.something_happens()
        if self._is_short():
            self._spare()

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

    def _wait(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            if self._is_short() and not self._tried and self._loop is not None:
                try:
                    asyncio.run_coroutine_threadsafe(self.look(), self._loop).result()
                except RuntimeError:
                    return  # the server ends, and its loop has

    def _is_short(self) -> bool:
        is_short = bool(self._wanted) and ram_room_bytes() < self._wanted
        self._said = self._said and is_short
        return is_short

    def _spare(self) -> None:
        before = ram_room_bytes()
        try:
            with torch.inference_mode():
                spared = spare_ram(self._wanted, used_by(self._prompts()))
        except Exception:
            log.exception("[Headroom] models could not go to disk though RAM is short")
            self._tried = True
            return
        if spared.count or not self._said:
            log.warning("[Headroom] %s", self._told(before, spared))
        self._tried = self._said = not spared.count

    def _told(self, before: int, spared: Spared) -> str:
        asked = f"{mib_text(before)} of RAM were left, {VARIABLE} asks for {mib_text(self._wanted)}"
        if not spared.count:
            return f"{asked}: {spared.refusal or 'no idle model is left to go to disk'}"
        models = "idle model" if spared.count == 1 else "idle models"
        return (
            f"{asked}: {mib_text(spared.moved_bytes)} of {spared.count} {models} went to disk, "
            f"{mib_text(ram_room_bytes())} are left now"
        )


def used_by(prompts: Sequence[Mapping[str, Any]]) -> IsUsed:
    """Return whether a patcher's file is named by a prompt; None where its file is not known."""
    if not prompts:
        return lambda patcher: False
    registry = host_registry()
    files = [path for prompt in prompts for path in Graph(prompt, registry).files()]
    named = {os.path.realpath(path) for path in files}

    def is_used(patcher: Any) -> bool | None:
        host = current_host()
        files = host.source_files(patcher) if host is not None else []
        return any(os.path.realpath(path) in named for path in files) if files else None

    return is_used
