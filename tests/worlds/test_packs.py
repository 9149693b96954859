"""What popular packs do to models, loops and caches, together with every node and rerun of ours.

The packs are stand-ins in `packs/`; `support/pack_graphs.py` has a workflow for each. Judged are
the pictures, which have to be those of the workflow without this pack, and what reports and records
say. Real packs run beside them from the folder that HEADROOM_REAL_PACKS names, one folder each:

    HEADROOM_REAL_PACKS=ComfyUI/custom_nodes python dev.py test tests/worlds/test_packs.py

Some packs install Python packages when they start: they do so in the environment of the tests.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest
from support import pack_graphs as graphs
from support.oom import run_sweep, text
from support.rescue import RESCUE, pixels, run_and_rerun

from tools.client import node_texts
from tools.graph import (
    GUARD_DEFAULTS,
    OFFLOAD_DEFAULTS,
    PURGE_DEFAULTS,
    Graph,
    add_checkpoint,
    add_guard,
    add_offload,
    picture,
)
from tools.models import TEST_CHECKPOINT_B

pytestmark = pytest.mark.host

PACKS = Path(__file__).resolve().parent / "packs"
GUARD_ALL = {"headroom": {"guard": True, "rescue": False}}
BOTH = {"headroom": {"guard": True, "rescue": True}}  # a few calls of ComfyUI have no guard
NOTHING = {"headroom": {"guard": False, "rescue": False}}
KIB = 1 << 10
SHOWN = 0.06  # MiB; reports have one decimal
GUARDED = {"MODEL": 0, "CLIP": 1, "VAE": 2}  # by the checkpoint loader's output
# What runs again has another change mark, or nothing that finished is kept: see its test.
RUNS_AGAIN = (graphs.flushed_cache, graphs.changed_by_time)
# Caches and marks matter to a rerun alone.
OF_MODELS = pytest.mark.parametrize(
    "world", [world for world in graphs.WORLDS if world not in RUNS_AGAIN],
    ids=lambda world: world.__name__)
# Another executor is tried where it matters: where nodes are cloned, and where little is cached.
EVERY_EXECUTOR = pytest.mark.parametrize(
    ("world", "packs"),
    [(world, ()) for world in graphs.WORLDS]
    + [(world, ("headroom_world_executor",))
       for world in (graphs.loop, graphs.flushed_cache, graphs.changed_by_time)],
    ids=lambda value: getattr(value, "__name__", "executor replaced" if value else ""),
)


def beside(sim, *more):
    """A GPU whose server has these packs beside the usual ones, and real ones where given."""
    real = os.environ.get("HEADROOM_REAL_PACKS")
    found = [one for one in sorted(Path(real).iterdir()) if one.is_dir()] if real else []
    return sim(2048, packs=(*(PACKS / one for one in more), *found))


@pytest.fixture
def gpu(sim):
    return beside(sim)


class Whole(NamedTuple):
    """A run in which nothing failed: its pictures, what was recovered, and its allocations."""

    pixels: list[bytes]
    oom: list[object]
    allocations: int


@pytest.fixture(scope="module")
def whole_of():
    """A function that runs a world's workflow, once in each way: without this pack, or guarded."""
    made = {}

    def run(gpu, world, way=NOTHING):
        key = (world, way is GUARD_ALL, gpu.url)
        if key not in made:
            gpu.unload()
            gpu.arm_fault(at=10**9)
            entry = gpu.client.run(world().prompt, extra_data=way)
            allocations = gpu.fault()["seen"]
            gpu.disarm()
            made[key] = Whole(pixels(gpu.client, entry), record(gpu, entry)["oom"], allocations)
        return made[key]

    return run


@pytest.fixture
def wanted_of(whole_of, gpu):
    """A function that gives the pictures of a world's workflow without this pack."""
    return lambda world: whole_of(gpu, world).pixels


def failing_once(gpu, graph, allocations, run_as):
    """The runs of a prompt in which one allocation fails, half way through that many."""
    gpu.unload()
    gpu.arm_fault(at=int(allocations * 0.55))
    runs = run_and_rerun(gpu.client, graph.prompt, run_as)
    failed = gpu.fault()["failed"]
    gpu.disarm()
    assert failed == 1 and runs.succeeded
    return runs


def record(gpu, entry):
    return gpu.client.get_json(f"/headroom/runs/{entry['prompt_id']}")


def on_wires(graph, class_type, name, defaults, types):
    """The workflow with a node of ours behind every output of the loader that has such a type."""
    made = Graph()
    made.prompt = json.loads(json.dumps(graph.prompt))
    for wire in [output for kind, output in GUARDED.items() if kind in types]:
        takers = [(node, key) for node in made.prompt.values()
                  for key, value in node["inputs"].items() if value == ["1", wire]]
        if takers:
            ours = made.add(class_type, f"ours-{wire}", **{**defaults, name: ["1", wire]})
            for node, key in takers:
                node["inputs"][key] = ours[0]
    return made


@pytest.mark.parametrize(
    ("world", "packs"),
    [*((world, ()) for world in graphs.WORLDS), (graphs.loop, ("headroom_world_executor",))],
    ids=lambda value: getattr(value, "__name__", "executor replaced" if value else ""),
)
def test_guarding_every_run_changes_no_pixel(sim, wanted_of, whole_of, world, packs):
    guarded = whole_of(beside(sim, *packs), world, GUARD_ALL)
    assert guarded.pixels == wanted_of(world) and guarded.oom == []


# Where it is another guard, on another wire, than that of a run that is guarded for its user.
@pytest.mark.parametrize("world", [graphs.handled_models, graphs.pipe])
def test_a_guard_behind_every_loader_changes_no_pixel(gpu, wanted_of, world):
    graph, wanted = world(), wanted_of(world)
    guarded = on_wires(graph, "HeadroomOOMGuard", "model", GUARD_DEFAULTS, ("MODEL", "CLIP", "VAE"))
    if "control" in graph.prompt:
        taker = next(node for node in guarded.prompt.values()
                     if node["inputs"].get("control_net") == ["control", 0])
        ours = guarded.add("HeadroomOOMGuard", **{**GUARD_DEFAULTS, "model": ["control", 0]})
        taker["inputs"]["control_net"] = ours[0]
    assert pixels(gpu.client, gpu.client.run(guarded.prompt, extra_data=NOTHING)) == wanted


@OF_MODELS
def test_one_failed_allocation_in_a_guarded_run_gives_the_same_picture_or_says_that_it_may_differ(
    gpu, wanted_of, whole_of, world
):
    wanted, guarded = wanted_of(world), whole_of(gpu, world, GUARD_ALL)
    runs = failing_once(gpu, world(), guarded.allocations, BOTH)
    told = record(gpu, {"prompt_id": runs.rerun_id or runs.first_id})["oom"]
    same = pixels(gpu.client, runs.last) == wanted
    assert same or any("may differ" in attempt["action"] for attempt in told), told


@EVERY_EXECUTOR
def test_a_prompt_that_ran_out_of_memory_gets_its_picture_in_the_rerun(
    sim, gpu, whole_of, world, packs
):
    graph, whole = world(), whole_of(gpu, world)
    gpu = beside(sim, *packs)
    runs = failing_once(gpu, graph, whole.allocations, RESCUE)
    assert pixels(gpu.client, runs.last) == whole.pixels
    if world not in RUNS_AGAIN and runs.rerun is not None:
        # A node that a loop cloned is one of its own prompt only. The sampler in the loop had
        # finished its first turn and failed in a later one: it runs again, guarded.
        again = {"sampler"} if world is graphs.loop else set()
        assert (runs.finished - again) & set(graph.prompt) <= runs.cached


@OF_MODELS
def test_offload_and_purge_in_the_middle_free_what_they_say_and_change_no_pixel(
    gpu, wanted_of, world
):
    graph, wanted = world(), wanted_of(world)
    last = graph.prompt["save"]["inputs"]
    after = graph.add("HeadroomOffloadModel", "offload", **{
        **OFFLOAD_DEFAULTS, "model": ["1", 0], "after": last["images"]})
    last["images"] = graph.add("HeadroomPurgeVRAM", "purge",
                               **{**PURGE_DEFAULTS, "value": after[1]})[0]
    entry = gpu.client.run(graph.prompt, extra_data=NOTHING)
    assert pixels(gpu.client, entry) == wanted
    assert gpu.collect().allocated_bytes <= 64 * KIB  # what a step cache keeps for itself
    freed = {one["node_id"]: one["freed_mib"] for one in record(gpu, entry)["actions"]}
    assert freed["offload"] > 1 and freed["purge"] > 1, freed


def diffusion_models(gpu):
    return [one for one in gpu.client.get_json("/headroom/memory")["models"]
            if one["kind"] == "diffusion model"]


def test_weights_that_a_pack_placed_are_counted_where_they_are_and_the_bytes_that_left_are_told(
    gpu
):
    gpu.unload()
    graph = graphs.placed_weights()
    gpu.client.run(graph.prompt, extra_data=NOTHING)
    [placed] = diffusion_models(gpu)
    assert placed["loaded_mib"] == pytest.approx(placed["total_mib"], abs=SHOWN)
    model, decode = graph.prompt["sampler"]["inputs"]["model"], graph.prompt["decode"]["inputs"]
    off = add_offload(graph, model=model, after=decode["samples"])
    entry = gpu.client.run(graph.prompt, extra_data=NOTHING)
    assert f"{placed['loaded_mib']:,.1f} MiB of weights left the GPU" in node_texts(entry)[off.id]
    assert all(one["loaded_mib"] == 0 for one in diffusion_models(gpu))


def test_a_guard_unloads_weights_that_a_pack_placed_to_make_room(gpu):
    gpu.unload()
    graph = graphs.placed_weights()
    loader = add_checkpoint(graph, TEST_CHECKPOINT_B)
    words = text(graph, loader, "a red cube")
    answer = run_sweep(
        gpu, graph, "OomSweepSampling", add_guard(graph, loader[0]), loader[0], positive=words,
        negative=words, latent=graph.prompt["decode"]["inputs"]["samples"], steps=2, cfg=4.0,
        sampler="euler", begins="SAMPLER_SAMPLE", first=200, stride=10_000, times=2)
    assert answer["problems"] == [] and answer["tried"] == 1
    assert len(diffusion_models(gpu)) == 1  # of the other, placed one nothing is loaded any more


def test_an_object_that_answers_none_for_everything_passes_our_nodes(gpu):
    graph = picture(20)
    silent = graph.add("WorldSilentModel", model=["1", 0])
    value = graph.add("HeadroomMoveToCPU", value=silent[1])
    value = graph.add("HeadroomMemoryReport", value=value[0])
    graph.add("HeadroomPurgeVRAM", **{**PURGE_DEFAULTS, "value": value[0]})
    graph.prompt["sampler"]["inputs"]["model"] = silent[0]
    gpu.client.run(graph.prompt, extra_data=GUARD_ALL)
