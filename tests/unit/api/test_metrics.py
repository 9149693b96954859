"""GET /headroom/metrics: valid for Prometheus, bounded, and free of cost until somebody asks."""

import contextlib
import json
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headroom.api import metrics as metrics_module
from headroom.api.metrics import MAX_CLASSES, Metrics, gauges
from headroom.base.device import MIB
from headroom.base.said import Refused
from headroom.host.types import Held, ModelFacts, NodeLabel, Outcome
from headroom.measure import journal
from headroom.measure.journal import OomAttempt
from headroom.measure.snapshot import DeviceMemory, Snapshot
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import Run

ROOT = Path(__file__).resolve().parents[3]
NASTY = 'a "quoted"\\name\nwith {braces}'


class Source:
    """The recorder's side: the runs that are over and not yet counted."""

    def __init__(self):
        self.over = []

    def page(self, metrics):
        def catch_up():
            while self.over:
                metrics.run_is_over(self.over.pop(0))

        return metrics.page(catch_up)

    def play(self, prompt_id, status="success", nodes=(("1", "KSampler"),), entries=()):
        """One whole prompt; every node peaks at 3,000 MiB."""
        classes = dict(nodes)

        def label(node_id):
            return NodeLabel(node_id, classes[node_id], "", node_id)

        begin = reading(0.0, 100)
        run = Run(prompt_id, ("cuda:0",), begin, 0.0, NodeTable(label))
        for entry in entries:
            run.note(1.0, entry)
        for step, node_id in enumerate(classes):
            at = reading(step + 1.0, 3000)
            run.node_starts(node_id, at)
            run.node_finishes(node_id, at)
        run.end(reading(1e6, 100))
        run.settle(Outcome(status))
        self.over.append(run)


def reading(at, mib):
    return Reading(at, 0, (Use(mib * MIB, total_bytes=8000 * MIB),))


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def failures():
    return {}


@pytest.fixture
def metrics(source, failures):
    made = Metrics(lambda: [], lambda prompt_id: failures.get(prompt_id, {}))
    source.page(made)
    return made


def samples(page):
    """Every sample of a page by name and labels, read by the library's own parser."""
    families = list(text_string_to_metric_families(page[0].decode()))
    assert len({family.name for family in families}) == len(families)
    return {(sample.name, *sorted(sample.labels.values())): sample.value
            for family in families for sample in family.samples}


def test_runs_are_counted_by_outcome_even_those_that_nobody_can_ask_for_any_more(source, metrics):
    for number in range(20):
        source.play(f"p{number}", "interrupted" if number % 4 == 0 else "success")
    found = samples(source.page(metrics))
    assert found["headroom_runs_total", "success"] == 15
    assert found["headroom_runs_total", "interrupted"] == 5
    assert samples(source.page(metrics))["headroom_runs_total", "success"] == 15  # counted once


@pytest.mark.parametrize(("name", "shown"), [("odd\udc80name", "odd?name"), (NASTY, NASTY)])
def test_a_class_with_a_nasty_name_stays_one_label(source, metrics, name, shown):
    source.play("p", nodes=(("1", name),))
    assert samples(source.page(metrics))["headroom_node_peak_vram_bytes_count", shown] == 1


def test_nothing_is_counted_before_the_first_request(source):
    metrics = Metrics(lambda: [], lambda _: {})
    source.play("before")
    metrics.run_is_over(source.over.pop())
    assert ("headroom_runs_total", "success") not in samples(source.page(metrics))


def test_errors_and_recoveries_are_counted_by_class(source, metrics, failures):
    def attempt(recovered):
        return OomAttempt("p", "1", 1, "tidied", 0.0, "error", recovered, at=0.0)

    source.play("p", entries=[attempt(False), attempt(True)])
    source.play("q", "error", nodes=(("7", "VAEDecode"),))
    source.play("r", "error", nodes=(("7", "VAEDecode"),))
    failures["q"] = {"failure": {"class_type": "VAEDecode"}}
    found = samples(source.page(metrics))
    assert found["headroom_out_of_memory_total", "KSampler"] == 2
    assert found["headroom_recoveries_total", "KSampler"] == 1
    assert found["headroom_out_of_memory_total", "VAEDecode"] == 1


def test_the_peak_of_each_class_is_a_histogram(source, metrics):
    source.play("p")
    found = samples(source.page(metrics))
    name = "headroom_node_peak_vram_bytes"
    counts = {key[1]: value for key, value in found.items() if key[0] == f"{name}_bucket"}
    below = {float(le): count for le, count in counts.items()}
    assert below[2048 * MIB] == 0 and below[4096 * MIB] == 1
    assert found[f"{name}_count", "KSampler"] == 1


def test_bytes_freed_or_read_by_nodes_and_http_are_counted_at_once(source, metrics):
    journal.note_action("purge", 12.5, "text")
    journal.note_action("purge", None, "no driver tells")
    journal.note_action("offload", 1.0, "text")
    journal.note_embeddings(read=3, encoded=1)
    found = samples(source.page(metrics))
    assert found["headroom_freed_bytes_total", "purge"] == 12.5 * MIB
    assert found["headroom_freed_bytes_total", "offload"] == MIB
    assert found["headroom_embeddings_total", "cache"] == 3
    assert found["headroom_embeddings_total", "encoder"] == 1


def test_a_thousand_classes_make_a_bounded_page(source, metrics):
    source.play("p", nodes=[(str(number), f"Class{number}") for number in range(1000)])
    found = samples(source.page(metrics))
    name = "headroom_node_peak_vram_bytes_count"
    assert len([key for key in found if key[0] == name]) == MAX_CLASSES + 1
    assert found[name, "other"] == 1000 - MAX_CLASSES


@pytest.fixture
def moment(monkeypatch):
    """A server with a GPU, a device whose driver tells nothing, and two models."""
    devices = (
        DeviceMemory("cuda:0", NASTY, 8000 * MIB, 3000 * MIB, 10, 20, None),
        DeviceMemory("mps:0", "Other", None, None, 5, None, None),
    )
    models = [Held(ModelFacts(f"m{n}", "VAE", "Net", None, 9), "cuda:0", 7) for n in (0, 1)]
    monkeypatch.setattr(metrics_module, "snapshot", lambda: Snapshot(devices, 11, 12))
    monkeypatch.setattr(metrics_module, "loaded_models", lambda: models)
    return lambda: gauges(lambda: (1, 4))


def test_current_figures_are_valid_and_unknown_ones_are_left_out(source, moment):
    found = samples(source.page(Metrics(moment, lambda _: {})))
    assert found["headroom_device_driver_free_bytes", "cuda:0"] == 3000 * MIB
    assert ("headroom_device_driver_free_bytes", "mps:0") not in found
    assert found["headroom_device_allocated_bytes", "mps:0"] == 5
    assert found[("headroom_device_info", *sorted(("cuda:0", NASTY)))] == 1
    assert found["headroom_models_loaded_bytes", "VAE", "cuda:0"] == 14
    assert found["headroom_process_resident_bytes",] == 11
    assert found["headroom_queue_prompts", "pending"] == 4
    assert found["headroom_queue_prompts", "running"] == 1


def test_without_the_library_the_answer_says_what_to_install(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(Refused, match="prometheus-client, which is not installed"):
        source.page(Metrics(lambda: [], lambda _: {}))


def names_in(text):
    import re

    return set(re.findall(r"headroom_[a-z_]+", text))


def test_the_dashboard_and_the_page_about_it_name_what_there_is(source, moment, monkeypatch):
    from headroom.base.cgroup import GroupMemory

    monkeypatch.setattr(metrics_module, "cgroup_memory", lambda: GroupMemory(2, 1))
    metrics = Metrics(moment, lambda _: {})
    source.page(metrics)
    page = source.page(metrics)[0].decode()
    families = {family.name for family in text_string_to_metric_families(page)}
    known = families | {f"{name}{end}" for name in families
                        for end in ("_total", "_bucket", "_sum", "_count")}
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    assert len(asked) >= 10 and names_in(" ".join(asked)) <= known
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for name in ("monitoring.md", "monitoring.zh-CN.md"):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert names_in(text) <= known and families <= {
            name.removesuffix("_total") for name in names_in(text)
        }


def test_two_first_requests_at_once_count_once(monkeypatch):
    client = types.ModuleType("prometheus_client")  # its import takes a while
    vars(client).update(vars(prometheus_client))
    begun = threading.Barrier(2)
    monkeypatch.setitem(sys.modules, "prometheus_client", client)
    client.__dict__.pop("CollectorRegistry")
    client.__getattr__ = lambda name: _late(begun, name)
    heard = []
    monkeypatch.setattr(metrics_module, "listen", heard.append)
    made = Metrics(lambda: (), lambda prompt_id: {})
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: made.page(lambda: None), range(2)))
    assert len(heard) == 1


def _late(begun, name):
    with contextlib.suppress(threading.BrokenBarrierError):
        begun.wait(0.2)
    return getattr(prometheus_client, name)
