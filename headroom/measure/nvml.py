"""What NVML reports about NVIDIA cards, without CUDA in this process and for all processes."""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch

from ..base.device import is_started, told

log = logging.getLogger("headroom")

Answer = TypeVar("Answer")


class CardProcess(NamedTuple):
    """A process that computes on a card; `used_bytes` is None if the driver does not tell."""

    number: int
    used_bytes: int | None


def card_memory(device: torch.device) -> tuple[int, int] | None:
    """Return (free, total) bytes of the card behind `device`; None if NVML cannot tell.

    CUDA counts some hundred MiB less in total: what driver and firmware keep for themselves.
    """
    info = _ask(device, lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card))
    return None if info is None else (int(info.free), int(info.total))


def card_name(device: torch.device) -> str | None:
    """Return the product name of the card behind `device`; None if NVML cannot tell."""
    return _ask(device, lambda nvml, card: str(nvml.nvmlDeviceGetName(card)))


def card_processes(device: torch.device) -> list[CardProcess]:
    """Return the processes on the card, this one too; in a container with outside numbers."""
    found = _ask(device, lambda nvml, card: nvml.nvmlDeviceGetComputeRunningProcesses(card))
    return [CardProcess(int(entry.pid), entry.usedGpuMemory) for entry in found or []]


@lru_cache(maxsize=1)
def _nvml() -> Any | None:
    """Return pynvml, started; None if the module or the driver is missing."""
    try:
        import pynvml
    except ImportError:
        log.warning("[Headroom] nvidia-ml-py is missing, so memory of other programs on the card "
                    "is not known: install this pack's requirements.txt with ComfyUI's Python")
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _ask(device: torch.device, query: Callable[[Any, Any], Answer]) -> Answer | None:
    """Return the result of `query(NVML, card)` for the card behind `device`; None if it fails."""
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    nvml = _nvml() if is_nvidia else None
    if nvml is None:
        return None
    try:
        card = _card(nvml, device)
        return None if card is None else query(nvml, card)
    except nvml.NVMLError:
        return None


def _card(nvml: Any, device: torch.device) -> Any | None:
    """Find the card by UUID: CUDA_VISIBLE_DEVICES renumbers torch's devices, not NVML's.

    None while this process has not started CUDA, which alone tells the UUID.
    """
    properties = told(torch.cuda.get_device_properties, device) if is_started("cuda") else None
    uuid = getattr(properties, "uuid", None)
    return None if uuid is None else nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
