"""What our nodes promise about bytes, asserted by the same words on every kind of GPU.

Each test runs on the simulated GPU and in each world of the fake CUDA driver (`support.worlds`)
wherever there is a ComfyUI, and on a real GPU where there is one. What differs between them is said
at the place.
"""

import json
import re

import pytest
from support.encodings import encode
from support.gpus import CPU, MIB, REAL, SIMULATED, pages_mib, spare_bytes, taken_bytes
from support.probes import load
from support.worlds import loaded_models

from tools.client import PromptFailed, node_texts
from tools.graph import Graph, add_guard, add_offload, add_purge, add_sampler
from tools.models import TEST_CHECKPOINT_B, TEST_LORA

SHOWN_MIB = 0.1  # reports have one decimal
PAGE_MIB = 32  # of comfy-aimdo's pager
THOUSAND = ("oldest, default", "real", "real, dynamic VRAM")
FLOAT32 = ("--fp32-unet", "--fp32-vae", "--fp32-text-enc")


def on(*gpus):
    return pytest.mark.parametrize("computing", gpus, indirect=True)


def figure(report, name):
    """The (before, after) of one row of a report, in MiB."""
    found = re.search(rf"^  {name} +([\d,.]+) -> +([\d,.]+) MiB", report, re.MULTILINE)
    assert found is not None, f"no row {name!r} in:\n{report}"
    before, after = (float(number.replace(",", "")) for number in found.groups())
    return before, after


def near_mib(device):
    """How near a free figure is to one that is read later: others may use a real GPU meanwhile."""
    return SHOWN_MIB + spare_bytes(device) / MIB


def left_bytes(device):
    """The bytes in use beyond those of a server that has done nothing."""
    return max(0, taken_bytes(device) - device.fresh_bytes)


def pictured(seed=1):
    graph = Graph()
    checkpoint = load(graph)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=seed)
    return graph, graph.add("VAEDecode", samples=latent, vae=checkpoint[2])


def test_a_purge_leaves_no_byte_of_a_model_and_its_report_is_what_is_there(device):
    graph, picture = pictured()  # ComfyUI's node cache holds the models
    purge = add_purge(graph, value=picture)
    second = add_purge(graph, value=purge[0])
    shown = graph.add("PreviewAny", source=purge[2])
    texts = node_texts(device.client.run(graph.prompt))
    figures, report = device.collect(), texts[purge.id]
    assert left_bytes(device) <= spare_bytes(device)
    assert figures.allocated_bytes <= spare_bytes(device)
    assert "models: SD1ClipModel" in report and "models: BaseModel" in report
    assert "models: nothing was loaded" in texts[second.id]
    if not spare_bytes(device):
        assert texts[second.id].startswith("0.0 MiB of VRAM freed: nothing was loaded or cached")
    if pages_mib(device) is not None:
        before, after = figure(report, "dynamic-VRAM pages")
        assert before > 0 and after == pages_mib(device) == 0
    else:
        assert figure(report, "torch allocated")[0] > 100
    for name, there in (("torch allocated", figures.allocated_bytes),
                        ("torch reserved", figures.reserved_bytes)):
        assert figure(report, name)[1] == pytest.approx(there / MIB, abs=SHOWN_MIB)
    before, after = figure(report, "driver free")
    assert after == pytest.approx(figures.free_bytes / MIB, abs=near_mib(device))
    freed = re.match(r"([\d.,]+) MiB of VRAM freed", report).group(1)
    for said in (freed.replace(",", ""), texts[shown.id]):
        assert float(said) == pytest.approx(after - before, abs=SHOWN_MIB)


def test_a_purge_over_http_leaves_no_byte_of_a_model(device):
    graph, picture = pictured(seed=2)
    graph.add("PreviewImage", images=picture)
    device.client.run(graph.prompt)
    assert left_bytes(device) > 100 * MIB
    device.client.free(unload_models=True, free_memory=False)
    device.client.post_when_idle("/headroom/purge", {})
    assert left_bytes(device) <= spare_bytes(device)


def test_a_tensor_that_something_needs_stays_and_no_byte_more(device):
    graph = Graph()
    checkpoint = load(graph)
    held = graph.add("BenchHold", large_mib=64, small=16)
    known = graph.add("BenchHeld", held=held)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    add_purge(graph, value=graph.add("BenchBoth", a=latent, b=known))
    floor = json.loads(node_texts(device.client.run(graph.prompt))[known.id])["bytes"]
    assert floor <= device.collect().allocated_bytes <= floor + spare_bytes(device)


def test_offloading_takes_the_bytes_of_its_model_and_no_other(device):
    graph = Graph()
    a, b = load(graph), load(graph, TEST_CHECKPOINT_B)
    both = graph.add("LatentAdd", samples1=add_sampler(graph, a[0], a[1]),
                     samples2=add_sampler(graph, b[0], b[1]))
    last = add_purge(graph, value=both, unload="no models")
    device.client.run(graph.prompt)
    for model, to, others in ((a[0], "CPU", [b]), (b[0], "disk", [])):
        before, models = device.collect(), loaded_models(device)
        pages_before = pages_mib(device)
        last = add_offload(graph, model=model, after=last[0] if to == "CPU" else last[1], to=to)
        probes = [graph.add("ProbeLoaded", after=last[1], model=other[0]) for other in others]
        texts = node_texts(device.client.run(graph.prompt))
        report, after, left = texts[last.id], device.collect(), loaded_models(device)
        (gone,) = [models[key] for key in models if key not in left]
        assert gone["kind"] == "diffusion model"
        assert left == {key: model for key, model in models.items() if key in left}
        for probe in probes:
            there = json.loads(texts[probe.id])
            assert there["module"] in there["modules"]
        free = figure(report, "driver free")
        assert free[1] == pytest.approx(after.free_bytes / MIB, abs=near_mib(device))
        if gone["dynamic"]:
            pages = gone["loaded_mib"] // PAGE_MIB * PAGE_MIB
            assert pages_before - pages_mib(device) == pytest.approx(pages, abs=SHOWN_MIB) != 0
        else:
            shown = figure(report, "torch allocated")
            taken = (before.allocated_bytes - after.allocated_bytes) / MIB
            assert shown[0] - shown[1] == pytest.approx(taken, abs=1)
            assert taken == pytest.approx(gone["loaded_mib"], abs=1)
            # Whole segments go back: others may hold parts of those of 20 MiB at both ends, or of
            # the pool's, which are large.
            least = 0 if after.allocator == "cudaMallocAsync" else gone["loaded_mib"] - 40
            assert least <= free[1] - free[0] < gone["loaded_mib"] + 32


def test_memory_of_other_processes_is_never_claimed(device):
    device.set_other_process(300)
    graph, picture = pictured()
    first = add_purge(graph, value=picture)
    second = add_purge(graph, value=first[0])
    texts = node_texts(device.client.run(graph.prompt))
    free_mib, near = device.collect().free_bytes / MIB, near_mib(device)
    for report in (texts[first.id], texts[second.id]):
        assert figure(report, "driver free")[1] == pytest.approx(free_mib, abs=near)
    assert figure(texts[second.id], "driver free")[0] == pytest.approx(free_mib, abs=near)
    (told,) = device.client.get_json("/headroom/memory")["devices"]
    assert told["free_mib"] == pytest.approx(free_mib, abs=near)
    assert told["other_processes_mib"] >= 300 - near
    assert device.client.get(f"/headroom/ready?free_mib={int(free_mib - near)}")[0] == 200
    assert device.client.get(f"/headroom/ready?free_mib={int(free_mib + near) + 1}")[0] == 503


def encoded(device, count, start, release=False):
    """Encode that many prompts; return the report and the figures afterwards."""
    report, told, figures = encode(device, count, start=start, release=release)
    assert len({item["digest"] for item in told}) == (count if device.computes else 1)
    return report, figures


def test_a_thousand_prompts_leave_not_a_byte_more_than_one(device):
    _, after_one = encoded(device, 1, 0)
    assert after_one.allocated_bytes > 0 or pages_mib(device)  # the encoder itself, as asked
    # A few where Python computes, and in all worlds but one; a thousand on a driver.
    _, after_all = encoded(device, 1000 if device.world in THOUSAND else 25, 1)
    assert after_all.allocated_bytes == after_one.allocated_bytes
    if not spare_bytes(device):  # a cache may have been emptied meanwhile
        assert after_all.reserved_bytes <= after_one.reserved_bytes
    device.client.post_when_idle("/headroom/purge", {})  # so that it makes cuBLAS's workspaces
    report, at_end = encoded(device, 1, 1001, release=True)
    assert max(at_end.allocated_bytes, left_bytes(device)) <= spare_bytes(device)
    assert "of weights unloaded" in report and "0 MiB, it was not loaded" not in report
    free = figure(report, "driver free")
    assert free[1] == pytest.approx(at_end.free_bytes / MIB, abs=near_mib(device))
    assert free[0] <= free[1] and "-" not in report.splitlines()[0]


@on(CPU, SIMULATED, REAL)
def test_an_offloaded_model_gives_the_same_latent_again_from_cpu_and_from_disk(computing):
    graph = Graph()
    checkpoint = load(graph)
    lora = graph.add("LoraLoaderModelOnly", model=checkpoint[0], strength_model=1.0,
                     lora_name=TEST_LORA.split("/")[1])
    samples, model = [add_sampler(graph, lora, checkpoint[1], seed=5)], lora
    for to in ("CPU", "disk"):
        model = add_offload(graph, model=lora, after=samples[-1], to=to)
        samples.append(add_sampler(graph, model, checkpoint[1], seed=5))
    digests = [graph.add("ProbeTensor", value=latent) for latent in samples]
    texts = node_texts(computing().client.run(graph.prompt))
    assert len({texts[digest.id] for digest in digests}) == 1


@on(SIMULATED, REAL)
def test_cast_bf16_halves_the_loaded_bytes_within_one_percent_and_says_what_it_saved(computing):
    graph = Graph()
    checkpoint, looks = load(graph), {}
    for output, kind in enumerate(("MODEL", "CLIP", "VAE")):
        model = checkpoint[output]
        cast = graph.add("HeadroomCastBF16", model=model, dtype="bfloat16", keep_float32="")
        full = graph.add("CastLoad", model=model)
        looks[kind] = full, graph.add("CastLoad", model=cast, after=full), cast
    texts = node_texts(computing(*FLOAT32).client.run(graph.prompt))
    for kind, (full, half, cast) in looks.items():
        before, after = (json.loads(texts[node.id]) for node in (full, half))
        for count in ("loaded", "requested"):
            assert after[count] / before[count] == pytest.approx(0.5, rel=0.01), (kind, count)
        saved_mib = (before["loaded"] - after["loaded"]) / MIB
        assert float(texts[cast.id].split()[0]) == pytest.approx(saved_mib, abs=0.1), kind
        assert "MiB float32 -> " in texts[cast.id], kind


@on(SIMULATED, REAL)
def test_a_guarded_model_completes_where_the_plain_one_runs_out(computing):
    """The weights fit and 0.4 of what the whole batch needs beside them: only splitting helps."""
    device = computing("--highvram")
    size = 128 if device.server.gpu else 64

    def sampled(seed, guard=False):
        """One step of a batch, alone on the device; the id of the prompt."""
        device.client.post_when_idle("/headroom/purge", {})
        device.reset_peaks()
        graph = Graph()
        checkpoint = load(graph)
        model = add_guard(graph, checkpoint[0]) if guard else checkpoint[0]
        latent = add_sampler(graph, model, checkpoint[1], size=size, seed=seed, steps=1)
        empty = graph.prompt[latent.id]["inputs"]["latent_image"][0]
        graph.prompt[empty]["inputs"]["batch_size"] = 4
        graph.add("ProbeTensor", value=latent)
        return device.client.run(graph.prompt, timeout=600)["prompt_id"]

    sampled(1)  # the conditioning is in the node cache from here on
    sampled(2)
    (model,) = device.client.get_json("/headroom/memory")["models"]
    beside_mib = device.collect().peak_reserved_bytes / MIB - model["loaded_mib"]
    device.set_capacity(model["loaded_mib"] + 0.4 * beside_mib)
    with pytest.raises(PromptFailed, match="(?i)out of ?memory|allocat"):
        sampled(3)
    attempts = device.client.get_json(f"/headroom/runs/{sampled(4, guard=True)}")["oom"]
    assert attempts and attempts[-1]["recovered"]
