"""A running ComfyUI on a simulated GPU, which tests and benchmarks control over HTTP."""

from __future__ import annotations

import time
from typing import Any

from .device import Figures

POLL_S = 0.2


class SimServer:
    """The server behind `client`, with the controls of its simulated device."""

    prefix = "/simgpu"  # of the routes; a real GPU answers the same requests under another one
    computes = True  # whether pictures and latents come out

    def __init__(self, server: Any, capacity_mib: int) -> None:
        self.server = server
        self.client: Any = server.client()
        self.capacity_mib = capacity_mib
        self.may_stay_bytes = 0

    @property
    def url(self) -> str:
        """Where the server answers."""
        return str(self.server.url)

    def log_text(self) -> str:
        """Everything the server has printed so far."""
        return str(self.server.log_text())

    def ledger(self) -> Figures:
        """All figures of the device now."""
        return Figures(**self.client.get_json(f"{self.prefix}/ledger"))

    def set_capacity(self, mib: float) -> Figures:
        """Change the size of the device; what is on it stays."""
        return Figures(**self._post("capacity", {"mib": mib}))

    def set_other_process(self, mib: float) -> Figures:
        """Let another process hold `mib` of the device."""
        return Figures(**self._post("other", {"mib": mib}))

    def arm_fault(self, **settings: Any) -> dict[str, Any]:
        """Fail allocations from now on; settings as in `Fault`. Raises ValueError for bad ones."""
        armed: dict[str, Any] = self._post("fault", settings)
        return armed

    def fault(self) -> dict[str, Any] | None:
        """The armed fault with how many allocations it has `seen` and `failed`."""
        found: dict[str, Any] | None = self.client.get_json(f"{self.prefix}/fault")
        return found

    def disarm(self) -> None:
        """Let allocations succeed again."""
        self._post("fault", {})

    def reset_peaks(self) -> Figures:
        """Reset the peaks to the current figures."""
        return Figures(**self._post("reset_peaks", {}))

    def collect(self) -> Figures:
        """The figures after a run of the server's garbage collector."""
        return Figures(**self._post("collect", {}))

    def restore(self) -> SimServer:
        """The device as it was started: own capacity, no other process, no fault."""
        self.disarm()
        self.set_other_process(0)
        self.set_capacity(self.capacity_mib)
        return self

    def unload(self, timeout: float = 60.0) -> Figures:
        """`POST /free` for models and cache, and wait until nothing is left on the device.

        Raises TimeoutError naming what stayed.
        """
        deadline = time.monotonic() + timeout
        # ComfyUI takes the second request when it has done the first. Until then no garbage may be
        # collected: its list of models, over which it goes, would lose those that nothing holds.
        for _ in range(2):
            self._free(deadline)
        while not self.is_empty(figures := self.collect()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{figures.allocated_bytes} bytes stayed on the device "
                                   f"{timeout:g} s after /free")
            time.sleep(POLL_S)
        return figures

    def is_empty(self, figures: Figures) -> bool:
        """Whether no tensor is on the device but those of other packs that may stay."""
        return figures.allocated_bytes <= self.may_stay_bytes

    def _free(self, deadline: float) -> None:
        """`POST /free` until ComfyUI takes it: one that comes while it is busy does not wake it."""
        while True:
            self.client.free(unload_models=False, free_memory=True)  # the latter implies the former
            if not self.client.get_json(f"{self.prefix}/pending")["free"]:
                return
            if time.monotonic() > deadline:
                raise TimeoutError("ComfyUI did not take a POST /free: is a prompt still running?")
            time.sleep(POLL_S)

    def _post(self, action: str, body: dict[str, Any]) -> Any:
        status, answer = self.client.post_json(f"{self.prefix}/{action}", body)
        if status != 200:
            raise ValueError(answer["error"])
        return answer
