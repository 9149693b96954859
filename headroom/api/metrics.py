"""Figures for operators: the present state and counts of what happened, for Prometheus.

`prometheus_client` is imported, and counting begins, with the first request: a server without such
requests pays nothing. Names and labels: docs/monitoring.md.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from ..base.cgroup import cgroup_memory
from ..base.device import MIB
from ..base.said import Refused, said
from ..measure.journal import Action, EmbeddingReads, Entry, OomAttempt, listen
from ..measure.snapshot import DeviceMemory, snapshot
from ..models.loaded import loaded_models
from ..record.run import Run

MAX_CLASSES = 200
OTHER = "other"
MAX_FAILED = 1000
PEAK_BUCKETS_MIB = (
    256, 512, 1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480,
    24576, 32768, 40960, 49152, 65536, 81920, 98304, 147456, 196608,
)


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
    for model, device, loaded in loaded_models():
        weights[device, model.kind] += loaded
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


class Metrics:
    """The page of GET /headroom/metrics; it counts from its first request on.

    `collect` returns the present figures, as `gauges` does, `failure_of` what the rescue knows of a
    failed prompt: {"failure": {"class_type": …}} if it ran out of memory.
    """

    def __init__(
        self, collect: Callable[[], Any], failure_of: Callable[[str], dict[str, Any]]
    ) -> None:
        self.collect = collect  # the library calls it for the present figures
        self._failure_of = failure_of
        self._client: Any = None  # the library, after the first request
        self._beginning = threading.Lock()
        self._classes: set[str] = set()  # of nodes, that have a label of their own
        self._failed: deque[str] = deque(maxlen=MAX_FAILED)

    def page(self, catch_up: Callable[[], None]) -> tuple[bytes, str]:
        """Return the page and its content type. Raises Refused without prometheus-client.

        `catch_up` calls `run_is_over` for every run that is over.
        """
        with self._beginning:  # two may ask for the first page at once
            if self._client is None:
                self._begin()
        catch_up()
        self._count_failures()
        return self._client.generate_latest(self._registry), self._client.CONTENT_TYPE_LATEST

    def _begin(self) -> None:
        try:
            import prometheus_client as client
        except ImportError as error:
            raise Refused(said(
                "Metrics need the Python package prometheus-client, which is not installed: "
                "run `python -m pip install prometheus-client` with the Python that ComfyUI "
                "runs with, and start ComfyUI again.")) from error
        registry = self._registry = client.CollectorRegistry()

        def counter(name: str, text: str, label: str) -> Any:
            return client.Counter(f"headroom_{name}", text, [label], registry=registry)

        self._runs = counter("runs", "Prompts that ended.", "outcome")
        self._oom = counter("out_of_memory", "Out-of-memory errors in nodes.", "class_type")
        self._recovered = counter("recoveries", "Errors that OOM Guard recovered.", "class_type")
        self._freed = counter("freed_bytes", "Bytes of VRAM that an action freed.", "action")
        self._embeddings = counter("embeddings", "Prompts by where they came from.", "source")
        self._peak = client.Histogram(
            "headroom_node_peak_vram_bytes", "Largest use of VRAM while a node ran.",
            ["class_type"], buckets=[mib * MIB for mib in PEAK_BUCKETS_MIB], registry=registry,
        )
        registry.register(self)
        listen(self._noted)
        self._client = client

    def describe(self) -> list[Any]:
        """Return nothing: without this the library would collect once only to learn the names."""
        return []

    def _label(self, class_type: str | None) -> str:
        """Return the label for a class of nodes; after a maximum, all others share one label."""
        name = (class_type or OTHER).encode("utf-8", "replace").decode("utf-8")
        if len(self._classes) < MAX_CLASSES:
            self._classes.add(name)
        return name if name in self._classes else OTHER

    def run_is_over(self, run: Run) -> None:
        """Count the run, its nodes and its errors, if somebody has asked for the page; quick."""
        if self._client is None:
            return
        self._runs.labels(run.status).inc()
        if run.status == "error":
            self._failed.append(run.prompt_id)
        for record in run.nodes.records.values():
            peak = record.peaks[run.fullest] if record.peaks and record.spans else None
            if peak is not None:
                label = self._label(record.info.class_type)
                self._peak.labels(label).observe(peak.at_least)
        for _, entry in run.entries:
            if isinstance(entry, OomAttempt):
                node = run.nodes.records.get(entry.node_id or "")
                label = self._label(node.info.class_type if node is not None else None)
                self._oom.labels(label).inc()
                if entry.recovered:
                    self._recovered.labels(label).inc()

    def _noted(self, entry: Entry) -> None:
        """One of our nodes or an HTTP call did something."""
        if isinstance(entry, Action):
            self._freed.labels(entry.action).inc((entry.freed_mib or 0.0) * MIB)
        elif isinstance(entry, EmbeddingReads):
            self._embeddings.labels("cache").inc(entry.read)
            self._embeddings.labels("encoder").inc(entry.encoded)

    def _count_failures(self) -> None:
        """Count the prompts that ended in an out-of-memory error, as the rescue knows them."""
        while self._failed:
            failure = self._failure_of(self._failed.popleft()).get("failure")
            if failure:
                self._oom.labels(self._label(failure.get("class_type"))).inc()
