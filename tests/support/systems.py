"""Graphics cards that are not here: torch's modules answer for them, as far as drivers tell."""

from types import ModuleType, SimpleNamespace

import torch

from headroom.measure import snapshot

MIB = 1 << 20
REFUSED = "The device (Intel(R) Arc(TM) A770) doesn't support querying the available free memory."
MEMORY = {"driver_free": 3000, "total": 8000, "allocated": 1000, "reserved": 1500}
KINDS = ("cuda", "rocm", "xpu", "mps", "directml", "privateuseone")
QUERIES = {
    "cuda": ("mem_get_info", "memory_allocated", "memory_reserved", "memory_stats_as_nested_dict",
             "memory_snapshot", "get_device_name", "get_device_properties",
             "get_device_capability", "current_device", "has_context"),
    "xpu": ("mem_get_info", "memory_allocated", "memory_reserved", "memory_stats_as_nested_dict",
            "get_device_name"),
    "mps": ("recommended_max_memory", "driver_allocated_memory", "current_allocated_memory"),
    "directml": (),
}
QUERIES["rocm"] = QUERIES["cuda"]
QUERIES["privateuseone"] = QUERIES["npu"] = QUERIES["mlu"] = QUERIES["xpu"]


class Card:
    """The only accelerator of this process; `silent` names the queries that its driver refuses."""

    def __init__(self, monkeypatch, kind="cuda", **memory):
        self.kind, self.silent = kind, set()
        self.mib = {**MEMORY, **memory}
        backend = {"rocm": "cuda", "directml": "privateuseone"}.get(kind, kind)
        self.device = torch.device(backend) if kind == "mps" else torch.device(backend, 0)
        snapshot._name.cache_clear()
        monkeypatch.setattr("headroom.base.device.accelerators", lambda: [self.device])
        monkeypatch.setattr(torch.version, "hip", "7.2" if kind == "rocm" else None)
        if kind == "directml":  # torch has no module for it
            return
        module = getattr(torch, backend, None) or ModuleType(backend)
        monkeypatch.setattr(torch, backend, module, raising=False)
        for name, answer in self._answers().items():
            monkeypatch.setattr(module, name, self._asked(name, answer), raising=False)
        if backend == "cuda":
            monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext",
                                self._asked("has_context", lambda: True), raising=False)

    def _asked(self, name, answer):
        def ask(*_args, **_named):
            if name in self.silent:
                raise RuntimeError(REFUSED)
            return answer()

        return ask

    def _answers(self):
        mib = self.mib
        counters = {
            "is_available": lambda: True, "is_initialized": lambda: True,
            "device_count": lambda: 1, "current_device": lambda: 0,
            "empty_cache": lambda: None, "ipc_collect": lambda: None,
            "reset_peak_memory_stats": lambda: None,
            "get_device_capability": lambda: (8, 6), "get_device_name": lambda: "A card",
            "get_allocator_backend": lambda: "native", "memory_snapshot": list,
            "get_device_properties": lambda: SimpleNamespace(uuid="0"),
            "mem_get_info": lambda: (mib["driver_free"] * MIB, mib["total"] * MIB),
            "memory_allocated": lambda: mib["allocated"] * MIB,
            "memory_reserved": lambda: mib["reserved"] * MIB,
            "memory_stats_as_nested_dict": self._stats,
        }
        if self.kind != "mps":
            return counters
        return {
            "empty_cache": lambda: None,
            "recommended_max_memory": lambda: mib["total"] * MIB,
            "driver_allocated_memory": lambda: mib["reserved"] * MIB,
            "current_allocated_memory": lambda: mib["allocated"] * MIB,
        }

    def _stats(self):
        reserved, allocated = (self.mib[name] * MIB for name in ("reserved", "allocated"))
        counts = {"allocated": reserved, "freed": 0, "current": reserved, "peak": reserved}
        return {"reserved_bytes": {"all": counts}, "allocated_bytes": {"all": {
            "current": allocated}}, "num_sync_all_streams": 0}


class Nvml:
    """NVML with these processes on its first card: (number, MiB; None where it is not told).

    Its cards: (name, total MiB or None where that is not told, used MiB).
    """

    NVMLError = LookupError

    def __init__(self, *processes, cards=(("A card", None, None),)):
        self.processes, self.cards = processes, cards

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        return int(uuid.removeprefix(b"GPU-"))

    def nvmlDeviceGetName(self, card):  # noqa: N802
        return self.cards[card][0]

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        _, total, used = self.cards[card]
        if total is None:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(total=total * MIB, free=(total - used) * MIB)

    def nvmlDeviceGetComputeRunningProcesses(self, card):  # noqa: N802
        return [SimpleNamespace(pid=number, usedGpuMemory=None if mib is None else mib * MIB)
                for number, mib in self.processes]
