"""VRAM in the record, against the exact ledger of the simulated GPU."""

import pytest
from support.timed import PACK, node, record

from simgpu import SimServer

pytestmark = pytest.mark.host
MIB = 1024 * 1024


@pytest.fixture
def gpu(serve):
    """A device that never had another size: the recorder asks for it once."""
    gpu = SimServer(serve(simulate_mib=4096, packs=(PACK,)), 4096).restore()
    gpu.client.run({"1": node("TimedForget")})
    return gpu


def test_before_after_and_peak_of_a_node_that_keeps_memory(gpu):
    run, nodes = record(gpu.client, gpu.client.run({
        "1": node("TimedMemory", mib=100, keep=True),
        "2": node("TimedMemory", mib=40, keep=False, value=["1", 0]),
        "3": node("TimedForget", value=["2", 0]),
    }))
    assert run["device"] == "cuda:0" and run["vram_source"] == "driver"
    assert run["vram_total_mib"] == 4096
    start = nodes["1"]["vram_before_mib"]
    assert nodes["1"]["vram_after_mib"] == start + 100
    assert (nodes["2"]["vram_before_mib"], nodes["2"]["vram_after_mib"]) == (start + 100,) * 2
    assert nodes["2"]["peak_vram_mib"] == start + 140
    assert nodes["3"]["vram_after_mib"] == start
    assert run["peak_vram_mib"] == start + 140


def test_a_peak_shorter_than_any_interval_of_sampling_is_not_missed(gpu):
    run, nodes = record(gpu.client, gpu.client.run({
        "1": node("TimedMemory", 0.0, mib=700, keep=False),
        "2": node("TimedMemory", 0.05, mib=10, keep=False, value=["1", 0]),
    }))
    start = nodes["1"]["vram_before_mib"]
    assert nodes["1"]["peak_vram_mib"] == start + 700
    assert nodes["2"]["peak_vram_mib"] == start + 10
    assert max(run["samples"]["vram_mib"]) == run["peak_vram_mib"] == start + 700


def test_what_a_quick_purge_freed_shows_at_its_own_node(gpu):
    gpu.client.run({"1": node("TimedMemory", mib=200, keep=True)})
    _, nodes = record(gpu.client, gpu.client.run({
        "1": node("TimedDrop"),
        "2": {"class_type": "HeadroomPurgeVRAM", "inputs": {
            "value": ["1", 0], "unload": "all models", "only_below_free_mib": 0,
            "free_ram": False, "reset_node_cache": False, "run": "every time"}},
    }))
    purge = nodes["2"]
    assert purge["vram_before_mib"] - purge["vram_after_mib"] >= 200


def test_memory_of_other_processes_is_part_of_the_device(gpu):
    gpu.set_other_process(200)
    kept = {"1": node("TimedMemory", mib=50, keep=True)}  # a late reading sees it too
    run, nodes = record(gpu.client, gpu.client.run(kept))
    device = gpu.client.get_json("/headroom/memory")["devices"][0]
    assert nodes["1"]["vram_before_mib"] >= 200
    assert run["peak_vram_mib"] == nodes["1"]["vram_before_mib"] + 50
    assert device["other_processes_mib"] == 200


def test_the_memory_answer_agrees_with_the_ledger(gpu):
    gpu.client.run({"1": node("TimedMemory", mib=64, keep=True)})
    device = gpu.client.get_json("/headroom/memory")["devices"][0]
    ledger = gpu.ledger()
    assert device["reserved_mib"] == ledger.reserved_bytes / MIB
    assert device["allocated_mib"] == ledger.allocated_bytes / MIB
    parts = ("models_mib", "other_torch_mib", "other_processes_mib", "free_mib")
    assert sum(device[part] for part in parts) == pytest.approx(device["total_mib"])


def test_a_model_is_offloaded_over_http_and_the_report_is_true(gpu):
    gpu.client.run({"1": node("TimedSlowModel", 0.0)})
    model = gpu.client.get_json("/headroom/memory")["models"][0]
    assert model["device"] == "cuda:0" and model["loaded_mib"] == model["total_mib"] > 0
    before = gpu.ledger().allocated_bytes
    status, report = gpu.client.post_json("/headroom/offload", {"model": model["id"]})
    assert status == 200 and "Linear" in report["text"]
    assert before - gpu.ledger().allocated_bytes >= 256 * 256 * 4
    assert gpu.client.get_json("/headroom/memory")["models"] == []


def test_the_chart_shows_vram_when_there_is_some(gpu):
    entry = gpu.client.run({
        "1": node("TimedMemory", 0.2, mib=300, keep=False),
        "2": {"class_type": "HeadroomMemoryReport", "inputs": {"value": ["1", 0]}},
    })
    text = "\n".join(entry["outputs"]["2"]["text"])
    assert "VRAM before" in text and "MiB (every process on the card)" in text
