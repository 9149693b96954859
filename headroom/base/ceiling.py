"""A ceiling: the most that this process may take of each device, though the device has more.

torch's allocators hold it themselves: they raise their out-of-memory error there. This module keeps
what is in effect, for everybody who says how much is left.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import torch

from .device import MIB, backend, told, torch_memory

GIB = 1024 * MIB
OFF = "off"
EXPECTED = "a size such as 10, 10 GiB or 80%, of at least 0.25 GiB or 5%, or off"
_SIZE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?)(%|gib|gb|g)?")
_LEAST_GIB, _LEAST_PERCENT = 0.25, 5.0


class Amount(NamedTuple):
    """How much of a device: a share of it in percent, or GiB."""

    figure: float
    is_percent: bool

    def __str__(self) -> str:
        return f"{self.figure:g}%" if self.is_percent else f"{self.figure:g} GiB"

    def bytes_of(self, total_bytes: int) -> int:
        """Return the bytes that this is of a device, never more than it has."""
        wanted = total_bytes * self.figure / 100 if self.is_percent else self.figure * GIB
        return min(int(wanted), total_bytes)


def amount_of(text: str) -> Amount | None:
    """Read "10", "10 GiB" or "80%"; None for everything else, and for what is too little."""
    found = _SIZE.fullmatch(text.lower().replace(" ", ""))
    if found is None:
        return None
    amount = Amount(float(found[1]), found[2] == "%")
    least = _LEAST_PERCENT if amount.is_percent else _LEAST_GIB
    is_possible = amount.figure >= least and not (amount.is_percent and amount.figure > 100)
    return amount if is_possible else None


class Ceiling(NamedTuple):
    """What is in effect on a device, in bytes.

    `limit_bytes` for this process in all, `share_bytes` of it for torch and the pages of dynamic
    VRAM together (the rest is the driver's context), `torch_bytes` of that for torch at most.
    """

    limit_bytes: int
    share_bytes: int
    torch_bytes: int

    def left_bytes(self, torchs_bytes: int, dynamic_bytes: int) -> int:
        """Return what torch may have beside so much of its own and so many bytes of pages."""
        return max(0, min(self.share_bytes - torchs_bytes - dynamic_bytes,
                          self.torch_bytes - torchs_bytes))


_ceilings: dict[str, Ceiling] = {}


def ceiling_of(device: torch.device) -> Ceiling | None:
    """Return what is in effect on `device`; None: nothing."""
    return _ceilings.get(_name(device))


def limit_torch(device: torch.device, total_bytes: int, ceiling: Ceiling | None) -> bool:
    """Let torch reserve at most so much of `device` from now on; None: as much as there is.

    False where torch has no limit of its own for such devices. What it has already stays. The
    native allocator counts what it has reserved, cudaMallocAsync what its tensors have.
    """
    limit = getattr(backend(device), "set_per_process_memory_fraction", None)
    if limit is None:
        return False
    if ceiling is None and _ceilings.pop(_name(device), None) is None:
        return True  # somebody else's limit is none of ours
    share = 1.0 if ceiling is None else min(1.0, ceiling.torch_bytes / total_bytes)
    given = (share,) if device.type == "mps" else (share, device)
    if told(lambda: limit(*given) or True) is None:
        return False
    if ceiling is not None:
        _ceilings[_name(device)] = ceiling
    return True


def within(
    device: torch.device, free_bytes: int, dynamic_bytes: Callable[[torch.device], int | None]
) -> int:
    """Return how much of `free_bytes` for a new tensor the ceiling of `device` leaves to it."""
    found = ceiling_of(device)
    if found is None:
        return free_bytes
    allocated = torch_memory(device)[0] or 0
    return min(free_bytes, found.left_bytes(allocated, dynamic_bytes(device) or 0))


def _name(device: torch.device) -> str:
    return f"{device.type}:{device.index or 0}"
