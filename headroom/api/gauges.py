"""The current figures for Prometheus: devices, models, RAM and the queue."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from ..base.cgroup import cgroup_memory
from ..measure.snapshot import DeviceMemory, snapshot
from ..models.loaded import loaded_models

DEVICE_FIGURES: tuple[tuple[str, str, Callable[[DeviceMemory], int | None]], ...] = (
    ("total", "Size of the device.", lambda device: device.total_bytes),
    ("driver_free", "Free for every process, by the driver.", lambda d: d.driver_free_bytes),
    ("limit", "This process takes at most.", lambda d: d.ceiling and d.ceiling.limit_bytes),
    ("allocated", "In tensors of this process.", lambda device: device.allocated_bytes),
    ("reserved", "Kept by torch's allocator.", lambda device: device.reserved_bytes),
    ("dynamic", "In pages of dynamic VRAM.", lambda device: device.dynamic_bytes),
)


def gauges(queue_lengths: Callable[[], tuple[int, int]]) -> Iterator[Any]:
    """Yield every figure. `queue_lengths` returns how many prompts run and how many wait."""
    from prometheus_client.core import GaugeMetricFamily as Family

    def family(name: str, text: str, labels: tuple[str, ...], *rows: tuple[Any, ...]) -> Any:
        made = Family(f"headroom_{name}", text, labels=labels)
        for *values, figure in rows:
            if figure is not None:
                made.add_metric([str(value) for value in values], figure)
        return made

    memory, weights = snapshot(), Counter[tuple[str, str]]()
    for model in loaded_models():
        weights[model.device, model.kind] += model.loaded_bytes
    for name, text, figure in DEVICE_FIGURES:
        rows = [(device.device, figure(device)) for device in memory.devices]
        yield family(f"device_{name}_bytes", text, ("device",), *rows)
    yield family("device_info", "The name of each device.", ("device", "name"),
                 *((device.device, device.name, 1) for device in memory.devices))
    yield family("models_loaded_bytes", "Weights on a device, by kind of model.",
                 ("device", "kind"), *((*place, size) for place, size in weights.items()))
    group, machine = cgroup_memory(), psutil.virtual_memory()
    for name, text, value in (
        ("ram_total_bytes", "RAM of the machine.", int(machine.total)),
        ("ram_available_bytes", "RAM that is available now.", int(machine.available)),
        ("process_resident_bytes", "RAM of this process.", memory.rss_bytes),
        ("cgroup_limit_bytes", "RAM that the container may use.", group.limit if group else None),
        ("cgroup_used_bytes", "RAM that the container uses.", group.used if group else None),
    ):
        yield family(name, text, (), (value,))
    running, pending = queue_lengths()
    yield family("queue_prompts", "Prompts that run or wait.", ("state",),
                 ("running", running), ("pending", pending))
