"""Carry the shared sequences out on a real GPU, in a fresh process; prints the figures as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch


class TorchDevice:
    """PyTorch's own allocator as `replay` wants it."""

    def take(self, nbytes: int) -> list[torch.Tensor]:
        """Allocate; the list is the only owner, so that `free` can let go."""
        return [torch.empty(nbytes, dtype=torch.uint8, device="cuda")]

    def free(self, handle: list[torch.Tensor]) -> None:
        """Give back."""
        handle.clear()

    def empty_cache(self) -> None:
        """Give cached segments back to the driver."""
        torch.cuda.empty_cache()

    def figures(self) -> tuple[int, int]:
        """Allocated and reserved bytes."""
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def measure() -> dict[str, Any]:
    """The figures of every sequence, and what they were taken on."""
    from simgpu.sequences import SEQUENCES, replay

    device = TorchDevice()
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "allocator": torch.cuda.get_allocator_backend(),
        "figures": {name: replay(steps, device) for name, steps in SEQUENCES.items()},
    }


if __name__ == "__main__":
    from main import load_package

    load_package()
    json.dump(measure(), sys.stdout)
