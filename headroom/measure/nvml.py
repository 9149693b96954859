"""What NVML tells about NVIDIA cards: it needs no CUDA in this process, and knows the others'."""

import os
from functools import lru_cache
from typing import Any

import psutil
import torch

from ..base.device import MIB, is_started


def card_memory(device: torch.device) -> tuple[int, int] | None:
    """Return (free, total) bytes of the card behind `device`, None where NVML cannot tell.

    Total is without what driver and firmware keep for themselves, as CUDA counts it, where the
    driver tells that (`nvmlMemory_v2_t`).
    """
    nvml, card = _card(device)
    if nvml is None or card is None:
        return None
    info = _memory_info(nvml, card)
    return int(info.free), int(info.total) - int(getattr(info, "reserved", 0))


def card_name(device: torch.device) -> str | None:
    """Return the product name of the card behind `device`, None where NVML cannot tell."""
    nvml, card = _card(device)
    return None if nvml is None or card is None else _text(nvml.nvmlDeviceGetName(card))


def other_processes_mib(device: torch.device) -> dict[int, float]:
    """Return {process id: MiB} of the other processes on the card, as NVML tells; empty if not."""
    nvml, card = _card(device)
    if nvml is None or card is None:
        return {}
    try:
        found = nvml.nvmlDeviceGetComputeRunningProcesses(card)
    except nvml.NVMLError:
        return {}  # not every driver lists processes
    own = psutil.Process().pid
    return {
        int(entry.pid): int(entry.usedGpuMemory) / MIB
        for entry in found
        if entry.pid != own and entry.usedGpuMemory
    }


@lru_cache(maxsize=1)
def _nvml() -> Any | None:
    """Return pynvml, started, or None where the module or the driver is missing."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _card(device: torch.device) -> tuple[Any | None, Any | None]:
    """Return NVML and the card behind `device`, None for what cannot be told for sure."""
    nvml = _nvml() if device.type == "cuda" else None
    if nvml is None:
        return None, None
    try:
        if is_started("cuda"):
            return nvml, _card_in_use(nvml, device)
        return nvml, _untouched_card(nvml, device.index or 0)
    except nvml.NVMLError:
        return nvml, None


def _card_in_use(nvml: Any, device: torch.device) -> Any:
    """Find the card by UUID: CUDA_VISIBLE_DEVICES renumbers torch's devices, not NVML's."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    if uuid is not None:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    return nvml.nvmlDeviceGetHandleByIndex(device.index or 0)


def _untouched_card(nvml: Any, index: int) -> Any | None:
    """Return the card that torch is going to call `index`, without asking CUDA for it.

    CUDA counts from the fastest card on unless CUDA_DEVICE_ORDER says otherwise, NVML by slot:
    which card is which is sure only with that setting, by UUID, or where all cards are alike.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    word = str(index)
    if visible is not None:
        word = dict(enumerate(visible.split(","))).get(index, "").strip()
    if word.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(word.encode())
    cards = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    alike = len({_text(nvml.nvmlDeviceGetName(card)) for card in cards}) == 1
    by_slot = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    is_known = word.isdigit() and int(word) < len(cards) and (alike or by_slot)
    return cards[int(word)] if is_known else None


def _memory_info(nvml: Any, card: Any) -> Any:
    version = getattr(nvml, "nvmlMemory_v2", None)
    if version is not None:
        try:
            return nvml.nvmlDeviceGetMemoryInfo(card, version=version)
        except nvml.NVMLError:
            pass  # a driver older than this structure
    return nvml.nvmlDeviceGetMemoryInfo(card)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
