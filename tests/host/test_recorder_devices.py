"""Two devices, PyTorch's own allocator: each is measured, and a device nobody uses stays unused."""

import pytest
from support.timed import node, of_one_moment, record

from tools.graph import PURGE_DEFAULTS, Graph, add_checkpoint, add_purge, add_sampler
from tools.models import TEST_CHECKPOINT

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]
CONTEXT_MIB = 64
MIB = 1 << 20


@pytest.fixture
def two(fake):
    gpu = fake(8192, "--disable-cuda-malloc", devices=2, context_mib=CONTEXT_MIB,
               allocator="native")
    gpu.client.run({"1": node("TimedForget")})
    return gpu


def test_no_route_and_no_purge_makes_a_context_on_a_device_that_nobody_uses(two):
    """The first test of the module: the second device is not in use yet."""
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    add_purge(graph, value=latent, only_below_free_mib=100_000)
    contexts = [two.driver.device(index).context_used_bytes for index in range(2)]
    two.client.run(graph.prompt)
    for path in ("memory", "ready?free_mib=100000", "metrics", "runs"):
        two.client.get(f"/headroom/{path}")
    for body in ({"free_mib": 1}, {"free_mib": 100_000}, {}):
        two.client.post_when_idle("/headroom/purge", body)
    assert contexts == [CONTEXT_MIB * MIB, 0]
    assert [two.driver.device(index).context_used_bytes for index in range(2)] == contexts


def test_the_recorder_starts_no_device_and_measures_the_second_once_it_is_used(two):
    used_by_comfyui = two.driver.device(1).used_bytes
    run, _ = record(two.client, two.client.run({"1": node("TimedMemory", mib=100, keep=False)}))
    assert run["device"] == "cuda:0" and len(run["devices"]) == 2
    answer = two.client.get_json("/headroom/memory")["devices"]
    assert [device["in_use"] for device in answer] == [True, used_by_comfyui > 0]
    assert [device["total_mib"] for device in answer] == [8192, 8192]
    assert two.driver.device(1).used_bytes == used_by_comfyui

    run, nodes = record(two.client, two.client.run({
        "1": node("TimedMemory", mib=1, keep=True, device="cuda:1"),
        "2": node("TimedMemory", mib=700, keep=True, device="cuda:1", value=["1", 0]),
        "3": node("TimedMemory", mib=40, keep=False, value=["2", 0]),
        "4": {"class_type": "HeadroomMemoryReport", "inputs": {"value": ["3", 0]}},
    }))
    assert [device["device"] for device in run["devices"]] == ["cuda:0", "cuda:1"]
    assert run["device"] == "cuda:1" and run["vram_total_mib"] == 8192
    first, second = (nodes[node_id]["devices"][1] for node_id in "12")
    assert first["vram_after_mib"] == second["vram_before_mib"]
    assert second["vram_after_mib"] - second["vram_before_mib"] == 700
    assert second["peak_vram_mib"] == nodes["2"]["peak_vram_mib"] == second["vram_after_mib"]
    third = nodes["3"]["devices"]
    assert third[1]["peak_vram_mib"] == third[1]["vram_after_mib"] == second["vram_after_mib"]
    assert third[0]["peak_vram_mib"] - third[0]["vram_before_mib"] <= 40
    now, answer = of_one_moment(lambda: two.driver.device(1), lambda: two.client.get_json(
        "/headroom/memory")["devices"])
    assert [device["in_use"] for device in answer] == [True, True]
    assert answer[1]["used_mib"] == now.used_bytes / MIB


def test_memory_report_shows_each_device(two):
    entry = two.client.run({
        "1": node("TimedMemory", mib=64, keep=True, device="cuda:1"),
        "2": {"class_type": "HeadroomMemoryReport", "inputs": {"value": ["1", 0]}},
    })
    text = "\n".join(entry["outputs"]["2"]["text"])
    assert "peak VRAM on cuda:0" in text and "peak VRAM on cuda:1" in text
    assert "VRAM cuda:1 before" in text


def test_each_of_two_models_is_named_with_its_device_and_the_other_is_left_alone(two):
    model = [node("TimedModel", mib=mib, device=device)
             for mib, device in ((64, "cuda:0"), (100, "cuda:1"))]
    offload = {"class_type": "HeadroomOffloadModel",
               "inputs": {"model": ["2", 0], "scope": "this model", "to": "CPU"}}

    def used():
        return [two.driver.device(index).used_bytes / MIB for index in range(2)]

    def loaded():
        models = two.client.get_json("/headroom/memory")["models"]
        return {found["device"]: found for found in models if found["class"] == "Linear"}

    two.client.run({"1": model[0], "2": model[1]})
    before = used()
    assert {name: found["loaded_mib"] for name, found in loaded().items()} == {
        "cuda:0": 64, "cuda:1": 100}
    answer = two.client.post_when_idle("/headroom/offload", {"model": loaded()["cuda:0"]["id"]})
    assert "64.0 MiB of weights left the GPU" in answer["headline"]
    assert [was - now for was, now in zip(before, used(), strict=True)] == [64, 0]
    entry = two.client.run({"2": model[1], "3": offload})
    assert "100.0 MiB of weights left the GPU" in entry["outputs"]["3"]["text"][0]
    assert before[1] - used()[1] == 100 and not loaded()
    two.client.run({"1": {**model[0], "inputs": {**model[0]["inputs"], "salt": -1}},
                    "2": {**model[1], "inputs": {**model[1]["inputs"], "salt": -2}}})
    assert used() == before
    answer = two.client.post_when_idle("/headroom/purge", {})
    assert answer["freed_mib"] >= 164 and not loaded()
    assert all(was - now >= mib for was, now, mib in zip(before, used(), (64, 100), strict=True))


@pytest.mark.parametrize(("when", "at_most"), [("before", True), ("after", False)])
def test_a_node_that_starts_torchs_peaks_again_has_at_least_what_was_seen(two, when, at_most):
    prompt = {"1": node("TimedPeak", 1.5, mib=700, when=when)}
    _, nodes = record(two.client, two.client.run(prompt))
    first = nodes["1"]["devices"][0]
    assert first["peak_vram_mib"] == first["vram_before_mib"] + 700
    assert first["peak_vram_at_most_mib"] == (first["peak_vram_mib"] if at_most else None)


def test_what_a_quick_purge_freed_shows_at_its_own_node(two):
    two.client.run({"1": node("TimedMemory", mib=200, keep=True)})
    _, nodes = record(two.client, two.client.run({
        "1": node("TimedDrop"),
        "2": {"class_type": "HeadroomPurgeVRAM", "inputs": {
            **PURGE_DEFAULTS, "value": ["1", 0], "run": "every time"}},
    }))
    purge = nodes["2"]
    assert purge["vram_before_mib"] - purge["vram_after_mib"] >= 200
