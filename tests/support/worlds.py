"""ComfyUI with each choice of tree and allocator on the fake CUDA driver: what its tests share."""

import os
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tools.device import GpuServer
from tools.graph import Graph, add_checkpoint, add_guard, add_sampler, forget_everything
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B
from tools.server import ComfyServer

from .servers import COMMON

MIB = 1 << 20
CAPACITY_MIB = 4096
ROOM_MIB = 4096.0
CLOSE = 0.001  # MiB; the answers have three decimals


@dataclass(frozen=True)
class World:
    """A choice of ComfyUI tree and allocator."""

    newest: bool = False
    flags: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    aimdo: str = ""  # a folder with comfy-aimdo, where it is not to be the environment's


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
EVERYWHERE = bool(os.environ.get("HEADROOM_EVERY_WORLD"))  # some minutes more
HAS_BOTH = bool(os.environ.get("HEADROOM_NEWEST_COMFYUI"))
if _aimdo := os.environ.get("HEADROOM_COMFY_AIMDO"):  # not the one that ComfyUI pins, unpacked
    WORLDS["newest, another comfy-aimdo"] = World(newest=True, aimdo=_aimdo)
# Those of most tests: each allocator is met still. The facts of tests/gpu are asked in more.
FEWER = [name for name in WORLDS if EVERYWHERE or not HAS_BOTH or name not in (
    "oldest, native", "oldest, expandable", "newest, native")]
USUAL = [name for name in FEWER if EVERYWHERE or name.endswith("default")]


def sampled(model=TEST_CHECKPOINT, seed=1, size=64):
    """A graph that samples, its checkpoint and its latent."""
    graph = Graph()
    checkpoint = add_checkpoint(graph, model)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=seed, size=size)
    return graph, checkpoint, latent


def one_after_the_other():
    """A graph in which each of two checkpoints stays while the other one samples."""
    graph, _, latent = sampled()
    second = add_checkpoint(graph, TEST_CHECKPOINT_B)
    both = add_sampler(graph, second[0], second[1])
    graph.prompt[both.id]["inputs"]["latent_image"] = latent[0]
    graph.add("ProbeTensor", value=both)
    return graph


def mib(nbytes):
    return pytest.approx(nbytes / MIB, abs=CLOSE)


def torch_bytes(now, pages_bytes):
    """What PyTorch took from the driver; expandable segments are handles, as pages are."""
    return now.malloc_bytes + now.pool_reserved_bytes + now.handle_bytes - pages_bytes


def loaded_models(device):
    """The models on the device by their id."""
    return {model["id"]: model for model in device.client.get_json("/headroom/memory")["models"]}


@contextmanager
def begun(request, name, comfyui, models_dir, base):
    """A server of that world, and what was on its device before the first prompt; or a skip."""
    import fakecuda

    if reason := fakecuda.why_not():
        pytest.skip(reason)
    world = WORLDS[name]
    tree = request.getfixturevalue("newest_comfyui") if world.newest else comfyui
    devices = fakecuda.FakeCuda(capacity_mib=CAPACITY_MIB, copy_at_most_kib=fakecuda.COPIED_KIB,
                                **world.settings)
    packs = [*COMMON, request.config.rootpath / "lab" / "packs" / "headroom_real_gpu"]
    env = {"PYTHONPATH": world.aimdo} if world.aimdo else {}
    with ComfyServer(tree, base, args=world.flags, packs=packs, models_dir=models_dir, env=env,
                     fake_cuda=devices.words(),
                     start_with=request.getfixturevalue("servers").start_process) as server:
        device = GpuServer(server, CAPACITY_MIB)
        device.world, device.fresh_bytes = name, device.driver.device().used_bytes
        yield device


def peaks(device, prompt):
    """A run's peak as the driver and as its record has it, in MiB, and its id."""
    forget_everything(device.client)
    device.reset_peaks()
    entry = device.client.run(prompt)
    run = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    peak = device.driver.device().peak_used_bytes / MIB
    return peak, run["peak_vram_mib"], entry["prompt_id"]


def with_room(device):
    """What a prompt copies where memory is enough, and what then stays.

    Enough also for what comfy-aimdo counts twice: it asks every two seconds what is free, without
    what cudaMallocAsync's pool keeps and will use again.
    """
    copied = device.driver.device().htod_bytes
    assert recovery(device, 8 * ROOM_MIB, 1) == []
    told, now = device.client.get_json("/headroom/memory"), device.driver.device()
    return {"copied": now.htod_bytes - copied, "pages": now.handle_bytes, "used": now.used_bytes,
            "streaming": streaming_bytes(device), "reserve_mib": told["reserve_mib"]}


def streaming_bytes(device):
    """What is neither PyTorch's nor a page of a model."""
    (told,) = device.client.get_json("/headroom/memory")["devices"]
    pages_bytes = round((told["dynamic_mib"] or 0) * MIB)
    return device.driver.device().used_bytes - device.ledger().reserved_bytes - pages_bytes


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


def refused_until_told(device, prompt, sampler):
    """What OOM Guard did in the first of some prompts in which a refusal of the driver met it.

    The pager does without what it is refused, and then nobody is told.
    """
    for at in range(8, 0, -1):
        prompt[sampler]["inputs"]["seed"] += 1
        before = device.driver.device()
        device.driver.fail(at, times=2)  # PyTorch or comfy-aimdo tries again at once: refused too
        entry = device.client.run(prompt)
        now = device.driver.device()
        assert now.failed_on_purpose - before.failed_on_purpose == now.refused - before.refused == 2
        attempts = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")["oom"]
        if attempts:
            break
        device.client.post_when_idle("/headroom/purge", {})
    return attempts
