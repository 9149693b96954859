"""Purge VRAM, Offload Model and their routes on the simulated GPU, counted to the byte.

That a purge leaves nothing and an offload takes one model is in tests/gpu, on every kind of GPU.
"""

import json
import math
import re

import pytest
from support.probes import load
from support.timed import of_one_moment

from tools.client import node_texts
from tools.graph import Graph, add_offload, add_purge, add_sampler, forget_everything
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_CHECKPOINT_FP16
from tools.waiting import wait_until

pytestmark = pytest.mark.host
MIB = 2**20


@pytest.fixture
def client(sim):
    client = sim(2048).client
    forget_everything(client)
    return client


def ledger(client):
    status, figures = client.post_json("/simgpu/collect", {})
    assert status == 200
    return figures


def test_the_cache_that_a_network_keeps_beside_its_weights_goes_with_them(client):
    """HiDream O1 keeps keys and values; ComfyUI does not clear them when it unloads the model."""
    graph = Graph()
    checkpoint = load(graph)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    kept = graph.add("ProbeKeepsCache", model=checkpoint[0], latent=latent, mib=64)
    add_purge(graph, value=kept)
    client.run(graph.prompt)
    assert ledger(client)["allocated_bytes"] == 0


HOLDERS = ["module global", "node object", "cache dict", "class", "result", "patcher", "patch"]


@pytest.mark.parametrize("where", HOLDERS)
def test_a_model_that_comfyui_does_not_manage_is_named_by_its_pack(client, where):
    graph = Graph()
    held = graph.add("ProbeHold", where=where, mib=128)
    purge = add_purge(graph, value=held[0])
    history = client.run(graph.prompt)
    is_result = where in ("result", "patcher")
    whose = "of Linear" if is_result else "held by headroom_probe (Linear)"
    sentence = f"not managed by ComfyUI, and left alone: 128.0 MiB {whose}"
    assert sentence in node_texts(history)[purge.id]
    named = [{"pack": None if is_result else "headroom_probe", "classes": ["Linear"],
              "mib": 128.0}]
    wait_until(lambda: client.get("/headroom/memory")[1]["foreign"] == named)
    wait_until(lambda: client.get("/headroom/runs?count=1")[1]["runs"][0]["foreign"] == named)
    client.run({"1": {"class_type": "ProbeHold", "inputs": {"where": "", "mib": 1}}})
    forget_everything(client)
    wait_until(lambda: client.get("/headroom/memory")[1]["foreign"] == [])


def test_a_model_that_its_pack_moves_itself_leaves_the_gpu_though_comfyui_has_not_loaded_it(client):
    graph = Graph()
    offload = add_offload(graph, model=graph.add("ProbeHold", where="patcher", mib=128))
    report = node_texts(client.run(graph.prompt))[offload.id]
    assert "Linear: 128.0 MiB of weights unloaded (not managed by ComfyUI" in report


@pytest.mark.parametrize("where", ["ComfyUI", "injected"], ids=["room to work", "its modules"])
def test_what_a_pack_adds_to_a_model_is_not_told_as_weights_that_left(client, where):
    graph = Graph()
    offload = add_offload(graph, model=graph.add("ProbeHold", where=where, mib=128))
    report = node_texts(client.run(graph.prompt))[offload.id]
    assert "128.0 MiB of weights left the GPU" in report


def test_a_model_on_its_way_to_disk_is_mapped_whole(client):
    graph = Graph()
    checkpoint = load(graph, TEST_CHECKPOINT_FP16)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    weights = graph.add("ProbeWeights", model=checkpoint[0], after=latent)
    offload = add_offload(graph, model=checkpoint[0], after=weights, to="disk")
    texts = node_texts(client.run(graph.prompt))
    size = json.loads(texts[weights.id])["mib"]
    mapped = re.findall(r"([\d.]+) MiB mapped from", texts[offload.id])
    assert sum(map(float, mapped)) == pytest.approx(size, rel=0.01)


def test_what_comfyui_keeps_on_the_gpu_is_told_as_kept_there_and_not_as_gone_or_foreign(sim):
    client = sim(2048, "--highvram").client
    forget_everything(client)
    graph = Graph()
    checkpoint = load(graph)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    offload = add_offload(graph, model=checkpoint[0], after=latent)
    again = add_offload(graph, model=checkpoint[0], after=offload[1])
    purge = add_purge(graph, value=again[1])
    texts = node_texts(client.run(graph.prompt))
    kept = "ComfyUI keeps it on the GPU (--highvram or --gpu-only)"
    for report in (texts[offload.id], texts[again.id]):
        assert report.startswith("0.0 MiB of weights left the GPU: ComfyUI keeps them there")
        assert f"BaseModel: 0 MiB, {kept}" in report
    assert re.search(r"kept on the GPU by ComfyUI \(--highvram or --gpu-only\): [1-9][\d.]* MiB of "
                     "BaseModel", texts[purge.id])
    assert "not managed" not in texts[purge.id]
    assert client.get_json("/headroom/memory")["foreign"] == []
    graph = Graph()
    checkpoint = load(graph, TEST_CHECKPOINT_B)
    graph.add("SaveLatent", samples=add_sampler(graph, checkpoint[0], checkpoint[1]),
              filename_prefix="kept")
    client.run(graph.prompt)
    leaves = [one["loaded_mib"] for one in client.get_json("/headroom/memory")["models"]
              if one["kind"] != "diffusion model"]
    ready = client.get_json("/headroom/ready")
    assert leaves and ready["evictable_mib"] == pytest.approx(sum(leaves), abs=0.01)


def test_only_below_free_counts_what_is_really_free(client):
    graph = Graph()
    low = add_purge(graph, only_below_free_mib=2048)
    high = add_purge(graph, only_below_free_mib=2049, value=low[0])
    texts = node_texts(client.run(graph.prompt))
    assert "nothing to do: 2,048.0 MiB are free" in texts[low.id]
    assert "nothing to do" not in texts[high.id]


def test_the_encoder_offloaded_after_encoding_is_off_the_gpu_while_the_sampler_works(client):
    def loaded_after(offloaded):
        graph = Graph()
        checkpoint = load(graph)
        sampled = add_sampler(graph, checkpoint[0], checkpoint[1])
        inputs = graph.prompt[sampled.id]["inputs"]
        if offloaded:
            moved = add_offload(graph, model=checkpoint[1], after=inputs["positive"])
            inputs["positive"] = moved[1]
        probe = graph.add("ProbeLoaded", after=sampled)
        told = json.loads(node_texts(client.run(graph.prompt))[probe.id])
        return told["classes"], told["allocated_bytes"]

    (both, with_encoder), (alone, without) = loaded_after(False), loaded_after(True)
    assert (both, alone) == (["BaseModel", "SD1ClipModel"], ["BaseModel"])
    assert without < with_encoder


def sampled(client, *checkpoints):
    """Sample with each checkpoint, so that its models stay loaded."""
    for name in checkpoints:
        graph = Graph()
        checkpoint = load(graph, name)
        latent = add_sampler(graph, checkpoint[0], checkpoint[1])
        graph.add("PreviewImage", images=graph.add("VAEDecode", samples=latent, vae=checkpoint[2]))
        client.run(graph.prompt)


def loaded_mib(client):
    models = client.get_json("/headroom/memory")["models"]
    return sum(model["loaded_mib"] for model in models)


def test_a_purge_for_an_amount_frees_that_and_as_little_more_as_comfyui_can(client):
    sampled(client, TEST_CHECKPOINT, TEST_CHECKPOINT_B)
    client.post_when_idle("/headroom/purge", {"unload": "no models"})
    status, before = client.get("/headroom/ready")
    weights = loaded_mib(client)
    assert status == 200 and before["evictable_mib"] == pytest.approx(weights, abs=0.1)
    assert client.get("/headroom/memory")[1]["foreign"] == []  # ComfyUI manages all of them
    wanted = math.ceil(before["free_mib"] + weights / 4)
    assert client.get(f"/headroom/ready?free_mib={wanted}")[0] == 200
    report = client.post_when_idle("/headroom/purge", {"free_mib": wanted})
    assert wanted <= report["reached_free_mib"]
    assert "were asked for" in report["headline"]
    largest = max(weights / 4 * 2, 64)
    assert 0 < weights - loaded_mib(client) <= weights / 4 + largest
    assert client.get_json("/headroom/ready")["free_mib"] >= wanted
    figures = ledger(client)
    unused = figures["reserved_bytes"] - figures["allocated_bytes"]
    assert figures["free_bytes"] + unused >= wanted * MIB

    left = loaded_mib(client)
    for enough in (wanted, 0):
        report = client.post_when_idle("/headroom/purge", {"free_mib": enough})
        assert (loaded_mib(client), report["freed_mib"]) == (left, 0)
        assert "nothing to do: there is enough room" in report["steps"]
        assert report["reached_free_mib"] >= wanted


def test_more_room_than_the_card_has_is_never_claimed(client):
    sampled(client, TEST_CHECKPOINT)
    status, answer = client.get("/headroom/ready?free_mib=4000")
    assert status == 503 and answer["ready"] is False
    assert "4,000.0 MiB are wanted on " in answer["reason"]
    report = client.post_when_idle("/headroom/purge", {"free_mib": 4000})
    assert report["reached_free_mib"] == 2048 and loaded_mib(client) == 0
    assert "nothing more can be unloaded" in report["headline"]


def metrics(client):
    from prometheus_client.parser import text_string_to_metric_families

    status, headers, body = client.request("GET", "/headroom/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=")
    return {(sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples}


def test_the_metrics_say_what_the_ledger_and_the_runs_say(client):
    metrics(client)  # counting begins
    sampled(client, TEST_CHECKPOINT)
    client.post_when_idle("/headroom/purge", {"unload": "no models"})
    figures, found = of_one_moment(lambda: ledger(client), lambda: metrics(client))
    [device] = client.get_json("/headroom/memory")["devices"]
    assert found["headroom_device_allocated_bytes", device["device"]] == figures["allocated_bytes"]
    assert found["headroom_device_driver_free_bytes", device["device"]] == figures["free_bytes"]
    assert found["headroom_runs_total", "success"] >= 1
    assert found["headroom_node_peak_vram_bytes_count", "KSampler"] >= 1
    before = found.get(("headroom_freed_bytes_total", "purge"), 0)
    report = client.post_when_idle("/headroom/purge", {})
    freed = metrics(client)["headroom_freed_bytes_total", "purge"] - before
    assert freed == pytest.approx(report["freed_mib"] * MIB, rel=1e-3) and freed > MIB
