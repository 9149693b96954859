"""Carry sequences out with the model and with PyTorch's own allocator, side by side in one process.

Prints as JSON how many steps were compared in every key of `torch.cuda.memory_stats()`, and the
first differences. The device must be as large as the argument says, in MiB, and nobody else's.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

COUNTED_FOR_EVER = ("num_device_alloc", "num_device_free")  # no reset starts these again
SHOWN = 5


class TorchAllocator:
    """PyTorch's allocator as `replay` wants it, its statistics starting at nothing."""

    def __init__(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_accumulated_memory_stats()
        torch.cuda.reset_peak_memory_stats()
        self._start = {name: torch.cuda.memory_stats()[name] for name in COUNTED_FOR_EVER}

    def take(self, nbytes: int) -> list[torch.Tensor] | None:
        """Allocate; the list is the only owner. None where there is no room."""
        try:
            return [torch.empty(nbytes, dtype=torch.uint8, device="cuda")]
        except torch.OutOfMemoryError:
            return None

    def free(self, handle: list[torch.Tensor]) -> None:
        """Give back."""
        handle.clear()

    def empty_cache(self) -> None:
        """Give cached segments back to the driver."""
        torch.cuda.empty_cache()

    def figures(self) -> dict[str, int]:
        """Every statistic, and what the driver says is free."""
        found = torch.cuda.memory_stats()
        for name, start in self._start.items():
            found[name] -= start
        return {**found, "driver_free_bytes": torch.cuda.mem_get_info()[0]}


class ModelAllocator:
    """The model as `replay` wants it."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def take(self, nbytes: int) -> Any:
        """Allocate; None where there is no room."""
        from simgpu import LedgerFull

        try:
            return self._ledger.malloc(nbytes)
        except LedgerFull:
            return None

    def free(self, handle: Any) -> None:
        """Give back."""
        self._ledger.free(handle)

    def empty_cache(self) -> None:
        """Give cached segments back to the driver."""
        self._ledger.empty_cache()

    def figures(self) -> dict[str, int]:
        """Every statistic under PyTorch's flat names, and what the driver says is free."""
        found = dict(_flat("", self._ledger.stats.nested()))
        return {**found, "driver_free_bytes": self._ledger.mem_get_info()[0]}


def _flat(prefix: str, nested: dict[str, Any]) -> list[tuple[str, int]]:
    pairs: list[tuple[str, int]] = []
    for name, value in nested.items():
        path = f"{prefix}{name}"
        pairs += _flat(f"{path}.", value) if isinstance(value, dict) else [(path, value)]
    return pairs


def compare(capacity_mib: int) -> dict[str, Any]:
    """All sequences, and random walks that run out of memory again and again."""
    from simgpu import Ledger
    from simgpu.sequences import SEQUENCES, random_walk, replay

    crowded = {f"crowded walk {n}": random_walk(n, 2000, capacity_mib * 5 // 4, 26.5)
               for n in range(3, 7)}
    differences, steps, failures, keys = [], 0, 0, 0
    for name, sequence in {**SEQUENCES, **crowded}.items():
        real = replay(sequence, TorchAllocator())
        model = replay(sequence, ModelAllocator(Ledger(capacity_mib << 20)))
        for number, (there, here) in enumerate(zip(real, model, strict=True)):
            differences += [
                {"sequence": name, "step": number, "key": key,
                 "torch": there.get(key), "model": here.get(key)}
                for key in sorted({*there, *here})
                if there.get(key) != here.get(key)
            ]
        steps, keys = steps + len(sequence), len(real[-1])
        failures += real[-1]["num_ooms"]
    return {"steps": steps, "keys": keys, "out_of_memory": failures, "differing": len(differences),
            "keys_differing": sorted({one["key"] for one in differences}),
            "differences": differences[:SHOWN]}


if __name__ == "__main__":
    from main import load_package

    load_package()
    print(json.dumps(compare(int(sys.argv[1]))))
