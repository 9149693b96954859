"""A ceiling: the most that this process may use of each device, though the device has more.

torch's allocators keep to it: they raise their out-of-memory error there. This module stores what
is in effect, for all code that computes free memory.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import torch

from .device import MIB, backend, told, torch_memory

GIB = 1024 * MIB
OFF = "off"
EXPECTED = "a size such as 10, 10 GiB or 80%, of at least 0.25 GiB or 5%, or off"
_SIZE = re.compile(r"([0-9]{1,4}(?:\.[0-9]+)?)(%|gib|gb|g)?")
_LEAST_GIB, _LEAST_PERCENT = 0.25, 5.0


class Amount(NamedTuple):
    """A part of a device: in percent, or in GiB."""

    figure: float
    is_percent: bool

    def __str__(self) -> str:
        return f"{self.figure:g}%" if self.is_percent else f"{self.figure:g} GiB"

    def bytes_of(self, total_bytes: int) -> int:
        """Return this amount of a device in bytes, never more than the device has."""
        wanted = total_bytes * self.figure / 100 if self.is_percent else self.figure * GIB
        return min(int(wanted), total_bytes)


def amount_of(text: str) -> Amount | None:
    """Read "10", "10 GiB" or "80%"; None for everything else, and for too small amounts."""
    found = _SIZE.fullmatch(text.lower().replace(" ", ""))
    if found is None:
        return None
    amount = Amount(float(found[1]), found[2] == "%")
    least = _LEAST_PERCENT if amount.is_percent else _LEAST_GIB
    is_possible = amount.figure >= least and not (amount.is_percent and amount.figure > 100)
    return amount if is_possible else None


class Ceiling(NamedTuple):
    """What is in effect on a device, in bytes.

    `limit_bytes`: for this process in all. `share_bytes`: the part for torch and the pages of
    dynamic VRAM together (the rest is the driver's context). `torch_bytes`: torch's part at most.
    """

    limit_bytes: int
    share_bytes: int
    torch_bytes: int

    def left_bytes(self, torchs_bytes: int, dynamic_bytes: int) -> int:
        """Return what torch may use, beside these bytes of its own and of pages."""
        return max(0, min(self.share_bytes - torchs_bytes - dynamic_bytes,
                          self.torch_bytes - torchs_bytes))


_ceilings: dict[str, Ceiling] = {}


def ceiling_of(device: torch.device) -> Ceiling | None:
    """Return what is in effect on `device`; None: nothing."""
    return _ceilings.get(_name(device))


def limit_torch(device: torch.device, total_bytes: int, ceiling: Ceiling | None) -> bool:
    """Let torch reserve at most the ceiling's `torch_bytes` from now on; None: no limit.

    False if torch has no limit for such devices. What it has already reserved stays. The native
    allocator counts what it has reserved, cudaMallocAsync the bytes of tensors.
    """
    limit = getattr(backend(device), "set_per_process_memory_fraction", None)
    if limit is None:
        return False
    if ceiling is None and _ceilings.pop(_name(device), None) is None:
        return True  # a limit that others have set stays
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
    """Return how much of `free_bytes` a new tensor can use below the ceiling of `device`."""
    found = ceiling_of(device)
    if found is None:
        return free_bytes
    allocated = torch_memory(device)[0] or 0
    return min(free_bytes, found.left_bytes(allocated, dynamic_bytes(device) or 0))


def _name(device: torch.device) -> str:
    return f"{device.type}:{device.index or 0}"
