"""A running ComfyUI on fake devices, which tests and benchmarks control."""

from __future__ import annotations

from typing import Any

from simgpu.device import Figures
from simgpu.remote import SimServer

from .ledger import MIB, Ledger

# PyTorch keeps cuBLAS's workspaces, 8.125 and 1 MiB, as long as the process lives.
WORKSPACE_BYTES = 16 * MIB


class FakeServer(SimServer):
    """The server behind `client`: PyTorch's figures are from HTTP, the driver's from the ledger."""

    prefix = "/realgpu"  # the pack headroom_real_gpu answers, as on a real GPU
    workspace_bytes = WORKSPACE_BYTES
    computes = False  # kernels do nothing: equal pictures would prove nothing

    def __init__(self, server: Any, capacity_mib: int) -> None:
        super().__init__(server, capacity_mib)
        self.driver = Ledger(server.fake_ledger)

    def set_capacity(self, mib: float) -> Figures:
        """Change the size of the first device; what is on it stays."""
        self.driver.set(capacity_bytes=int(mib * MIB))
        return self.ledger()

    def set_other_process(self, mib: float) -> Figures:
        """Let another process hold `mib` of the first device."""
        self.driver.set(other_process_bytes=int(mib * MIB))
        return self.ledger()

    def disarm(self) -> None:
        """Let allocations succeed again."""
        self.driver.set(fail_in=0)

    def reset_peaks(self) -> Figures:
        """Reset the peaks of PyTorch and of the driver."""
        self.driver.reset_peaks()
        return super().reset_peaks()

    def is_empty(self, figures: Figures) -> bool:
        """Return whether only what libraries keep until the process ends is on the device."""
        return figures.allocated_bytes <= WORKSPACE_BYTES
