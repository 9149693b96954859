"""What torch itself can report and do about an accelerator, without ComfyUI.

A query never starts a device: a process that has not used the GPU reports nothing, because starting
it takes some hundred MiB. What a driver cannot tell is None.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from .living import living

MIB = 1024 * 1024
Answer = TypeVar("Answer")


def told(query: Callable[..., Answer], *asked: Any) -> Answer | None:
    """Return the driver's answer; None if it has none: torch raises an error then.

    For many cards Intel's driver cannot tell the free memory; after a CUDA error no driver can.
    """
    try:
        return query(*asked)
    except RuntimeError:
        return None


def in_mib(amount_bytes: int | None) -> float | None:
    """Return an amount as MiB, as records and HTTP answers have it; None stays None."""
    return None if amount_bytes is None else round(amount_bytes / MIB, 3)


def mib_text(amount_bytes: float) -> str:
    """Return an amount as text in MiB with one decimal, never "-0.0 MiB"."""
    return f"{tenths(amount_bytes / MIB):,.1f} MiB"


def tenths(amount: float) -> float:
    """Return `amount` rounded to one decimal, as shown in texts: never "-0.0"."""
    return round(amount, 1) + 0.0


def same_device(one: torch.device, other: torch.device) -> bool:
    """Return whether two names mean one device, as "cuda" and "cuda:0" do."""
    return (one.type, one.index or 0) == (other.type, other.index or 0)


def stays(patcher: Any) -> bool:
    """Return whether a model's weights stay on its GPU when ComfyUI unloads it.

    So it does with --gpu-only, and with --highvram for diffusion models and ControlNets.
    """
    home, away = patcher.load_device, patcher.offload_device
    return home.type != "cpu" and same_device(home, away)


def is_pool(device: torch.device) -> bool:
    """Return whether torch's memory on `device` comes from the driver's pool (cudaMallocAsync)."""
    return device.type == "cuda" and torch.cuda.get_allocator_backend() == "cudaMallocAsync"


def backend(device: torch.device) -> Any | None:
    """Return torch's module for the kind of `device` (`torch.cuda`, `torch.xpu`, `torch.mps`).

    None for the CPU, for kinds without memory functions, and while this process does not use the
    device: every function of these modules would start it.
    """
    module = None if device.type == "cpu" else getattr(torch, device.type, None)
    if module is None or not hasattr(module, "empty_cache"):
        return None
    return module if is_in_use(device) else None


def is_in_use(device: torch.device) -> bool:
    """Return whether this process has started `device`, and so has a context on it."""
    if not is_started(device.type):
        return False
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if device.type != "cuda" or has_context is None:
        return True
    index = told(torch.cuda.current_device) if device.index is None else device.index
    return told(has_context, index or 0) is not False


def is_started(kind: str) -> bool:
    ask = getattr(getattr(torch, kind, None), "is_initialized", None)
    return ask is None or bool(ask())


def computes_in_bf16() -> bool:
    if not torch.cuda.is_available() or not is_started("cuda"):
        return is_started("xpu")
    capability = told(torch.cuda.get_device_capability) or (0, 0)
    return torch.version.hip is not None or capability[0] >= 8


def accelerators() -> list[torch.device]:
    """Return the accelerators that torch knows, the current one first; empty without any."""
    if torch.cuda.is_available():
        current = told(torch.cuda.current_device) or 0 if is_started("cuda") else 0
        indices = sorted(range(torch.cuda.device_count()), key=lambda index: index != current)
        return [torch.device("cuda", index) for index in indices]
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        return [torch.device("xpu", i) for i in range(xpu.device_count())]
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        return [torch.device("mps")]
    return []


def empty_cache() -> None:
    for device in accelerators():
        module = backend(device)
        if module is None:
            continue
        module.empty_cache()
        ipc_collect = getattr(module, "ipc_collect", None)
        if ipc_collect is not None:
            ipc_collect()


def clear_workspaces() -> int | None:
    """Return cuBLAS's workspaces to torch's allocator; return the bytes, None if it cannot.

    torch keeps one of about 8 MiB for each stream that ever multiplied matrices, and it keeps the
    segments around it alive. Call it only while no kernel is launched: the next one makes its own
    again. A captured CUDA graph uses the workspaces of its capture, so if one exists nothing is
    done.
    """
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is None or not is_started("cuda") or has_cuda_graph():
        return None
    before = _allocated_on_cuda()
    clear()
    return before - _allocated_on_cuda()


def has_cuda_graph() -> bool:
    """Return whether a captured CUDA graph lives; it has the addresses of what it works in."""
    graph = getattr(torch.cuda, "CUDAGraph", None)
    return graph is not None and bool(living(graph))


def _allocated_on_cuda() -> int:
    used = [device for device in accelerators() if device.type == "cuda" and is_in_use(device)]
    return sum(torch_memory(device)[0] or 0 for device in used)


def driver_memory(device: torch.device) -> tuple[int, int] | None:
    """Return (free bytes, total bytes) by the driver, which includes other processes."""
    module = backend(device)
    if device.type == "mps":
        total = _count(module, "recommended_max_memory")
        held = _count(module, "driver_allocated_memory")
        return None if total is None or held is None else (total - held, total)
    query = getattr(module, "mem_get_info", None)
    found = told(query, device) if query is not None else None
    return None if found is None else (int(found[0]), int(found[1]))


def shares_ram(device: torch.device) -> bool:
    """Return whether a device has only RAM as memory: freeing one makes room for the other."""
    if device.type == "mps":
        return True
    if device.type != "cuda" or not is_started("cuda"):
        return False
    return bool(getattr(told(torch.cuda.get_device_properties, device), "is_integrated", False))


def is_in_ram(device: torch.device) -> bool:
    """Return whether tensors on a device are in RAM: on the CPU, or if the device shares RAM."""
    return device.type == "cpu" or shares_ram(device)


def torch_memory(device: torch.device) -> tuple[int | None, int | None]:
    """Return (allocated bytes, reserved bytes) of torch's allocator in this process."""
    module = backend(device)
    if module is None:
        return (None, None) if is_in_use(device) else (0, 0)
    if device.type == "mps":
        return (_count(module, "current_allocated_memory"),
                _count(module, "driver_allocated_memory"))
    return _count(module, "memory_allocated", device), _count(module, "memory_reserved", device)


def _count(module: Any | None, name: str, *asked: Any) -> int | None:
    query = getattr(module, name, None)
    found = told(query, *asked) if query is not None else None
    return None if found is None else int(found)


class Reserve(NamedTuple):
    """What torch's allocator has from the driver, in bytes: now, returned so far, the most so far.

    None: the allocator does not count it. `allocated_bytes`: the part of the reserve that tensors
    use.
    """

    current_bytes: int
    returned_bytes: int | None = None
    peak_bytes: int | None = None
    allocated_bytes: int | None = None


def torch_reserve(device: torch.device) -> Reserve | None:
    """Return torch's reserve on `device`; None while this process does not use it, or if unknown.

    The counts are those of `torch.cuda.memory_stats` (`torch.xpu` has the same). The backend
    cudaMallocAsync has no sums, and `reset_accumulated_memory_stats` breaks the sums: they are used
    only if the difference of bytes received and returned is what is there.
    """
    module = backend(device)
    if module is None:
        return None
    nested = getattr(module, "memory_stats_as_nested_dict", None)
    # The flat `memory_stats` sorts some hundred names first and takes five times as long.
    stats = told(nested, device) or {} if nested is not None else {}
    found = stats.get("reserved_bytes")
    if not found:
        reserved = torch_memory(device)[1]
        return None if reserved is None else Reserve(reserved)
    allocated = stats.get("allocated_bytes", {}).get("all", {}).get("current")
    count = found["all"]
    adds_up = count["allocated"] - count["freed"] == count["current"]
    is_counted = adds_up and (count["allocated"] > 0 or count["peak"] == 0)
    returned = count["freed"] if is_counted else None
    return Reserve(count["current"], returned, count["peak"], allocated)


def begin_peak_again(device: torch.device) -> bool:
    """Reset torch's peaks of `device` to the present values; False if it has none.

    ComfyUI never reads them. It costs a microsecond.
    """
    reset = getattr(backend(device), "reset_peak_memory_stats", None)
    return reset is not None and told(lambda: reset(device) or True) is not None


def device_name(device: torch.device) -> str:
    query = getattr(backend(device), "get_device_name", None)
    name = told(query, device) if query is not None else None
    return str(device) if name is None else str(name)
