"""What our nodes and routes say, byte for byte against the driver's ledger.

PyTorch's own allocators and ComfyUI's own pager run here, with ComfyUI's default flags and with
each other choice of allocator.
"""

import re
from dataclasses import dataclass, field

import pytest
from support.facts import figure

from devtools import advice
from devtools.client import node_texts
from devtools.graph import (
    Graph,
    add_checkpoint,
    add_guard,
    add_offload,
    add_purge,
    add_sampler,
    forget_everything,
)
from devtools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B
from devtools.server import ComfyServer

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]

MIB = 1 << 20
PAGE_MIB = 32  # of comfy-aimdo's pager
CAPACITY_MIB = 4096
CLOSE = 0.001  # MiB; the answers have three decimals
SHOWN = 0.05  # MiB; the reports have one


@dataclass(frozen=True)
class World:
    """A choice of ComfyUI tree and allocator."""

    newest: bool = False
    flags: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)


NATIVE = ("--disable-cuda-malloc",)
WORLDS = {
    "oldest, default": World(),
    "oldest, native": World(flags=NATIVE, settings={"allocator": "native"}),
    "oldest, expandable": World(flags=NATIVE, settings={"allocator": "expandable"}),
    "newest, default": World(newest=True),
    "newest, native": World(newest=True, flags=NATIVE, settings={"allocator": "native"}),
    "newest, expandable": World(newest=True, flags=NATIVE, settings={"allocator": "expandable"}),
    "newest, without dynamic VRAM": World(newest=True, flags=("--disable-dynamic-vram",)),
}


@pytest.fixture(scope="module", params=WORLDS)
def started(request, comfyui, models_dir, tmp_path_factory):
    """One server of a world at a time, and what was on the device before the first prompt."""
    import fakecuda

    if reason := fakecuda.why_not():
        pytest.skip(reason)
    world = WORLDS[request.param]
    tree = request.getfixturevalue("newest_comfyui") if world.newest else comfyui
    devices = fakecuda.FakeCuda(capacity_mib=CAPACITY_MIB, **world.settings)
    packs = [request.config.rootpath / "tests" / folder for folder in (
        "host/packs/headroom_probe", "host/packs/headroom_timed", "gpu/packs/headroom_real_gpu")]
    base = tmp_path_factory.mktemp("comfyui")
    with ComfyServer(tree, base, args=world.flags, packs=packs, models_dir=models_dir,
                     fake_cuda=devices.words()) as server:
        device = fakecuda.FakeServer(server, CAPACITY_MIB)
        device.world, device.fresh_bytes = request.param, device.driver.device().used_bytes
        yield device


@pytest.fixture
def device(started):
    """The server of the world, with nothing loaded."""
    started.restore()
    forget_everything(started.client)
    started.reset_peaks()
    return started


def sampled(model=TEST_CHECKPOINT, seed=1, size=64):
    """A graph that samples, its checkpoint and its latent."""
    graph = Graph()
    checkpoint = add_checkpoint(graph, model)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=seed, size=size)
    return graph, checkpoint, latent


def mib(nbytes):
    return pytest.approx(nbytes / MIB, abs=CLOSE)


def torch_bytes(now, pages_bytes):
    """What PyTorch took from the driver; expandable segments are handles, as pages are."""
    return now.malloc_bytes + now.pool_reserved_bytes + now.handle_bytes - pages_bytes


@pytest.mark.parametrize("other_mib", [0, 300])
def test_the_memory_answer_is_what_the_driver_knows(device, other_mib):
    device.set_other_process(other_mib)
    graph, _, latent = sampled()
    graph.add("ProbeTensor", value=latent)
    device.client.run(graph.prompt)
    (told,) = device.client.get_json("/headroom/memory")["devices"]
    now = device.driver.device()
    pages_bytes = (told["dynamic_mib"] or 0) * MIB
    assert told["total_mib"] == CAPACITY_MIB
    assert told["free_mib"] == mib(now.free_bytes)
    assert told["used_mib"] == mib(now.used_bytes + now.other_process_bytes)
    assert told["other_processes_mib"] == mib(now.other_process_bytes)
    assert told["reserved_mib"] == mib(torch_bytes(now, pages_bytes))
    assert pages_bytes <= now.handle_bytes
    assert now.used_bytes > 285 * MIB  # both models


def test_the_pages_told_are_the_pages_mapped(device):
    graph, _, latent = sampled()
    graph.add("ProbeTensor", value=latent)
    device.client.run(graph.prompt)
    (told,) = device.client.get_json("/headroom/memory")["devices"]
    if told["dynamic_mib"] is None:
        pytest.skip("no dynamic VRAM here")
    now, reserved = device.driver.device(), device.ledger().reserved_bytes
    torchs_own = reserved if "expandable" in device.world else 0
    assert told["dynamic_mib"] == mib(now.handle_bytes - torchs_own)
    assert told["dynamic_mib"] > 0


def test_the_report_of_a_purge_is_what_the_driver_knows(device):
    device.set_other_process(100)
    graph, _, latent = sampled()
    purge = add_purge(graph, value=latent)
    report = node_texts(device.client.run(graph.prompt))[purge.id]
    now = device.driver.device()
    free = figure(report, "driver free")
    assert free[1] == pytest.approx(now.free_bytes / MIB, abs=SHOWN)
    freed = re.match(r"([\d.,]+) MiB of VRAM freed", report).group(1)
    assert float(freed.replace(",", "")) == pytest.approx(free[1] - free[0], abs=2 * SHOWN)
    assert figure(report, "torch reserved")[1] == pytest.approx(
        torch_bytes(now, 0) / MIB, abs=SHOWN)


def test_after_a_full_purge_the_driver_has_all_the_memory_of_a_fresh_server(device):
    graph, _, latent = sampled()
    add_purge(graph, value=latent)
    device.client.run(graph.prompt)
    assert device.driver.device().used_bytes == device.fresh_bytes


def test_offloading_takes_the_bytes_of_its_model_and_no_other(device):
    graph = Graph()
    a, b = (add_checkpoint(graph, file) for file in (TEST_CHECKPOINT, TEST_CHECKPOINT_B))
    both = graph.add("LatentAdd", samples1=add_sampler(graph, a[0], a[1]),
                     samples2=add_sampler(graph, b[0], b[1]))
    tidy = add_purge(graph, value=both, unload="no models")
    device.client.run(graph.prompt)
    before, models = device.driver.device(), loaded_models(device)
    offload = add_offload(graph, model=a[0], after=tidy)
    report = node_texts(device.client.run(graph.prompt))[offload.id]
    after, left = device.driver.device(), loaded_models(device)
    (gone,) = [models[key] for key in models if key not in left]
    assert gone["kind"] == "diffusion model" and list(left.values()) == [
        model for key, model in models.items() if key in left]
    free = figure(report, "driver free")
    assert free[1] == pytest.approx(after.free_bytes / MIB, abs=SHOWN)
    if gone["dynamic"]:
        pages = int(gone["loaded_mib"] // PAGE_MIB) * PAGE_MIB * MIB
        assert before.handle_bytes - after.handle_bytes == pages > 0
    else:
        taken = free[1] - free[0]
        # PyTorch gives back whole segments, of which other tensors may hold parts.
        assert gone["loaded_mib"] - 20 < taken < gone["loaded_mib"] + 32


def loaded_models(device):
    """The models on the device by their id."""
    return {model["id"]: model for model in device.client.get_json("/headroom/memory")["models"]}


def test_the_peak_of_a_run_is_the_drivers(device):
    device.set_other_process(50)
    graph, _, latent = sampled(size=512)
    graph.add("ProbeTensor", value=latent)
    entry = device.client.run(graph.prompt)
    run = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    now = device.driver.device()
    assert run["vram_source"] == "driver" and run["vram_total_mib"] == CAPACITY_MIB
    assert run["peak_vram_mib"] == mib(now.peak_used_bytes + now.other_process_bytes)


def test_followed_advice_lowers_the_drivers_peak_as_it_said(device):
    """Two checkpoints in one prompt, one after the other: each stays while the other runs."""
    graph, first, latent = sampled()
    second = add_checkpoint(graph, TEST_CHECKPOINT_B)
    both = add_sampler(graph, second[0], second[1])
    graph.prompt[both.id]["inputs"]["latent_image"] = latent[0]
    graph.add("ProbeTensor", value=both)
    before, _, prompt_id = peaks(device, graph.prompt)
    steps = [one for one in advice.of(device.client, prompt_id, into_gib=0.001)
             if one["kind"] != "oom_guard"]
    assert steps and not any(one["changes_picture"] for one in steps)
    after, told, _ = peaks(device, advice.applied(graph.prompt, steps))
    assert after == mib(told * MIB) and after < before - 50
    low, high = steps[-1]["expected_mib"]
    assert low - 2 * PAGE_MIB <= after <= high + 2 * PAGE_MIB


def peaks(device, prompt):
    """A run's peak as the driver and as its record has it, in MiB, and its id."""
    forget_everything(device.client)
    device.reset_peaks()
    entry = device.client.run(prompt)
    run = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    peak = device.driver.device().peak_used_bytes / MIB
    return peak, run["peak_vram_mib"], entry["prompt_id"]


def test_a_guarded_sampler_survives_refusals_of_the_driver(device):
    graph, checkpoint, latent = sampled(seed=7, size=512)
    graph.prompt[latent.id]["inputs"]["model"] = [add_guard(graph, checkpoint[0]).id, 0]
    graph.add("ProbeTensor", value=latent)
    device.client.run(graph.prompt)  # its texts are in the node cache from here on
    device.client.post_when_idle("/headroom/purge", {})
    graph.prompt[latent.id]["inputs"]["seed"] += 1
    before = device.driver.device()
    device.driver.fail(8, times=2)  # PyTorch or comfy-aimdo tries again at once: refused too
    entry = device.client.run(graph.prompt)
    now = device.driver.device()
    assert now.failed_on_purpose - before.failed_on_purpose == now.refused - before.refused == 2
    attempts = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")["oom"]
    assert attempts and attempts[-1]["recovered"]


def test_a_recovery_repeats_nothing_in_vain_and_the_next_prompt_does_not_fail(device):
    """At the largest device of those tried, each a tenth smaller, on which memory runs out."""
    if device.world not in ("newest, default", "newest, without dynamic VRAM"):
        pytest.skip("a recovery is tried with ComfyUI's defaults, dynamic VRAM on and off")
    mib = 4096.0
    while not (first := recovery(device, mib, 1)):
        mib *= 0.9
    assert len(first) <= 2 and all(attempt["recovered"] for attempt in first), first
    assert recovery(device, mib, 2) == []


def recovery(device, mib, seed):
    """What OOM Guard did in a prompt on such a device; on an empty one for the first seed."""
    if seed == 1:
        device.restore()
        forget_everything(device.client)
    device.set_capacity(mib)
    graph = Graph()
    parts = add_checkpoint(graph, TEST_CHECKPOINT)
    model, clip = add_guard(graph, parts[0]), add_guard(graph, parts[1])
    latent = add_sampler(graph, model, clip, seed=seed, size=1024)
    graph.prompt["6"]["inputs"]["batch_size"] = 8
    graph.add("ProbeTensor", value=latent)
    entry = device.client.run(graph.prompt)
    return device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")["oom"]
