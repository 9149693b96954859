"""The ceiling (VRAM limit) of this server: who sets it, and how the allocators keep to it.

torch's allocators keep to it by their own memory fraction, dynamic VRAM by the value that it keeps
free of pages. So an out-of-memory error comes at the ceiling, and OOM Guard and reruns handle it,
as on a smaller card. The driver's context is part of this server's memory, so it is subtracted.
"""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

import torch

from ..base.ceiling import EXPECTED, GIB, OFF, Amount, Ceiling, amount_of, ceiling_of, limit_torch
from ..base.device import MIB, in_mib, is_pool
from ..base.environment import allocator_words, ignore
from ..base.said import Said, said, said_json
from ..host.adapter import LEAVES_VRAM, current_host, has_flag, return_cache
from ..measure.journal import note_action
from ..measure.other_processes import own_bytes
from ..measure.snapshot import DeviceMemory, devices_in_use, measure_device

log = logging.getLogger("headroom")

VARIABLE = "HEADROOM_VRAM_LIMIT"
SETTING = "Headroom.Server.VramLimit"
# Windows moves memory to RAM before a card is full; comfy-aimdo leaves as much out of its budget.
# Nobody has run this on Windows: tests set the platform and the figures.
KEPT_ON_WINDOWS = 512 * MIB
LEAST_SHARE = 64 * MIB
PAGE = 32 * MIB  # of comfy-aimdo: it keeps the page of the running layer when torch asks for memory
POOLS_TENSORS = 5 / 6  # of the pool's reserved memory (tests/host/test_fake_cuda_bytes.py)

Wish = Amount | str | None  # the text OFF: no limit; None: nobody has set one


class Limit:
    """The limit that is asked for, and how it gets to the devices in use.

    A limit sent over HTTP has priority until the server stops, then the server's environment, then
    the setting of the browser's user, which comes with each prompt. If nobody sets it, there is a
    ceiling on Windows only.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, browser: Mapping[str, Any] | None = None,
        platform: str = sys.platform,
    ) -> None:
        self._environment = environment
        self._platform = platform
        self._of_server = _wish(environment.get(VARIABLE, ""), VARIABLE)
        self._of_browser = _wish((browser or {}).get(SETTING, ""), SETTING)
        self._sent: Wish = None
        self._not_limited: list[Said] = []
        self._logged = set[str]()  # templates
        self._lock = threading.Lock()
        self._is_on = False

    @property
    def wish(self) -> tuple[Wish, str]:
        """Return the limit that is valid, and who has set it."""
        for found, whose in ((self._sent, "HTTP"), (self._of_server, "environment"),
                             (self._of_browser, "browser")):
            if found is not None:
                return found, whose
        return None, "default"

    def prompt_is_posted(self, browser: Mapping[str, Any]) -> None:
        """A prompt comes from a user with these browser settings."""
        self._of_browser = _wish(browser.get(SETTING, ""), SETTING)

    def set(self, text: str) -> None:
        """Set this limit from now on, in any thread; ValueError if it is no size."""
        found = _wish(text)
        if found is None:
            raise ValueError(said("Expected `limit` to be {expected}, but got {given}.",
                                  expected=EXPECTED, given=text[:60]))
        self._sent = found
        self.apply()
        note_action("limit", 0.0, said("the VRAM limit is {limit}", limit=str(found)))

    def before_prompt(self) -> None:
        """Limit every device that is in use by now, and free what is above the ceiling.

        Call it in the executor's thread before a prompt's first node. It costs nothing if off.
        """
        self.apply()
        self.unload_excess()

    def apply(self) -> None:
        """Give the present limit to torch and to dynamic VRAM."""
        wish = self.wish[0]
        is_wanted = wish != OFF if wish is not None else self._platform == "win32"
        if not is_wanted and not self._is_on:
            return
        with self._lock:
            self._is_on = is_wanted
            found = {device: measure_device(device) for device in devices_in_use()}
            self._not_limited = [
                sentence for device, memory in found.items()
                for sentence in self._limit(device, memory, wish if is_wanted else OFF)
            ]
            self._not_limited += self._limit_pages(found)
            if isinstance(wish, Amount) and not found and _computes_on_cpu():
                self._not_limited = [
                    said("nothing can be limited: this server computes on the CPU")]
            if isinstance(wish, Amount):
                self._log_once()

    def _log_once(self) -> None:
        """Log what cannot be limited: who sets a variable may never open the panel."""
        for sentence in self._not_limited:
            if sentence.template not in self._logged:
                self._logged.add(sentence.template)
                log.warning("[Headroom] VRAM limit %s: %s", self.wish[0], sentence)

    def _limit(self, device: torch.device, memory: DeviceMemory, wish: Wish) -> list[Said]:
        """Limit torch's part of one device; return sentences about what cannot be limited."""
        total = memory.total_bytes
        if wish == OFF or total is None:
            limit_torch(device, total or 1, None)
            return [] if wish == OFF else [said("the size of {device} is not known, so there is no "
                                                "limit on it", device=memory.device)]
        told = []
        if isinstance(wish, Amount):
            limit, own = wish.bytes_of(total), own_bytes(device)
            if limit == total:  # perhaps somebody wrote MiB
                limit_torch(device, total, None)
                return [said("{device} has {total_mib}: the limit of {limit} changes nothing "
                             "there", device=memory.device, total_mib=total / MIB,
                             limit=str(wish))]
            beside = 0 if own is None else max(0, own - (memory.held_bytes or 0))
            share = max(LEAST_SHARE, limit - beside)
            if own is None:
                told.append(said("the driver needs some hundred MiB more for this server on "
                                 "{device}: it does not tell how much",
                                 device=memory.device))
        else:
            # Idle programs free memory when Windows needs it, so a full desktop is no reason for
            # less than half of the card.
            limit = share = max(total - (memory.other_bytes or 0) - KEPT_ON_WINDOWS, total // 2)
        is_asked = isinstance(wish, Amount)  # else free memory covers the pool's gaps
        ceiling = Ceiling(limit, share, self._torchs_share(device, share) if is_asked else share)
        if not limit_torch(device, total, ceiling):
            told.append(said("torch has no limit of its own for {device}", device=memory.device))
        return told

    def _torchs_share(self, device: torch.device, share: int) -> int:
        """Return what torch may use by its own count.

        In cudaMallocAsync's pool torch counts tensors, not what the pool keeps between them.
        Dynamic VRAM does not see expandable segments, so each of the two gets half. Otherwise two
        pages may be in use while torch takes all of its part: the size of one is kept free for it.
        """
        host = current_host()
        if is_pool(device):
            return int(share * POOLS_TENSORS)
        if host is None or not host.has_dynamic_vram():
            return share
        is_unseen = "expandable_segments:true" in allocator_words(self._environment)
        return share // 2 if is_unseen else share - PAGE

    def _limit_pages(self, found: Mapping[torch.device, DeviceMemory]) -> list[Said]:
        host = current_host()
        if host is None:
            return []
        held = [(memory.total_bytes or 0, ceiling, device) for device, memory in found.items()
                if (ceiling := ceiling_of(device)) is not None]
        if not host.has_dynamic_vram():
            is_asked = isinstance(self.wish[0], Amount)  # ComfyUI's own reserve is more than ours
            return [] if not held or not is_asked else [said(
                "ComfyUI itself loads models by what the driver has free: OOM Guard loads within "
                "the limit, and {flag} lets ComfyUI do so",
                flag=_flag("--reserve-vram", *held[0][:2]))]
        kept = 0
        if held:  # one value for all cards: that of the one on which models run
            total, ceiling, _ = held[0]
            # What pages and torch's allocations may use together, as far as comfy-aimdo sees these.
            kept = total - ceiling.torch_bytes
        if not host.keep_from_pages(kept) and held:
            name = next(filter(has_flag, LEAVES_VRAM), LEAVES_VRAM[-1])
            return [said("dynamic VRAM cannot be limited while it runs: start ComfyUI with {flag}",
                         flag=_flag(name, *held[0][:2]))]
        if len({total for total, _, _ in held}) > 1:
            return [said("dynamic VRAM has one value for all cards: it is that of {device}",
                         device=str(held[0][2]))]
        return []

    def unload_excess(self) -> None:
        """Unload what is above the ceiling; call it while no prompt runs."""
        host = current_host()
        if host is None or not self._is_on:
            return
        for device in devices_in_use():
            if _over_bytes(device) > 0:
                return_cache()
            if (over := _over_bytes(device)) > 0:
                free = (host.available_bytes(device) or 0) + host.hidden_bytes(device)
                host.free_at_least(device, free + over, ())
                return_cache()

    def as_json(self) -> dict[str, Any]:
        """Return the answer of GET /headroom/limit."""
        wish, whose = self.wish
        found = [(device, ceiling) for device in devices_in_use()
                 if (ceiling := ceiling_of(device)) is not None]
        return {
            "limit": None if wish is None else str(wish), "set_by": whose,
            "devices": [{"device": str(device), "limit_mib": in_mib(ceiling.limit_bytes),
                         "torch_mib": in_mib(ceiling.torch_bytes)} for device, ceiling in found],
            "not_limited": [{"text": one, "said": said_json(one)} for one in self._not_limited],
        }


def _wish(value: object, name: str | None = None) -> Wish:
    """Return the limit that a text or amount means; with a `name`, warn once if it is no size."""
    text = value.strip() if isinstance(value, str) else str(value or "")
    found: Wish = OFF if text.lower() == OFF else amount_of(text)
    if text and found is None and name is not None:
        ignore(name, value, EXPECTED)
    return found


def _computes_on_cpu() -> bool:
    host = current_host()
    return host is not None and host.compute_device().type == "cpu"


def _over_bytes(device: torch.device) -> int:
    memory = measure_device(device)
    return 0 if memory.ceiling is None else (memory.held_bytes or 0) - memory.ceiling.share_bytes


def _flag(name: str, total_bytes: int, ceiling: Ceiling) -> str:
    return f"{name} {(total_bytes - ceiling.share_bytes) / GIB:.1f}"
