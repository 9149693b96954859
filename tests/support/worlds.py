"""ComfyUI with each choice of tree and allocator on the fake CUDA driver: what its tests share."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devtools import workflows
from devtools.graph import Graph, add_checkpoint, add_sampler
from devtools.models import TEST_CHECKPOINT

MIB = 1 << 20
CAPACITY_MIB = 4096
CLOSE = 0.001  # MiB; the answers have three decimals
SHOWN = 0.05  # MiB; the reports have one


@dataclass(frozen=True)
class World:
    """A choice of ComfyUI tree and allocator."""

    newest: bool = False
    flags: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    aimdo: str | None = ""  # a folder with comfy-aimdo; None: there is none; "": the environment's


NATIVE = ("--disable-cuda-malloc",)
WORLDS = {
    "oldest, default": World(),
    "oldest, native": World(flags=NATIVE, settings={"allocator": "native"}),
    "oldest, expandable": World(flags=NATIVE, settings={"allocator": "expandable"}),
    "newest, default": World(newest=True),
    "newest, native": World(newest=True, flags=NATIVE, settings={"allocator": "native"}),
    "newest, expandable": World(newest=True, flags=NATIVE, settings={"allocator": "expandable"}),
    "newest, without dynamic VRAM": World(newest=True, flags=("--disable-dynamic-vram",)),
    # Not the one that ComfyUI pins: unpacked in the folder that HEADROOM_COMFY_AIMDO names.
    "newest, another comfy-aimdo": World(newest=True, aimdo=os.environ.get("HEADROOM_COMFY_AIMDO")),
}


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


def has_free(report_mib, now):
    """Whether a report's last figure of the driver's free memory is the driver's own."""
    return report_mib == pytest.approx(now.free_bytes / MIB, abs=SHOWN)


def loaded_models(device):
    """The models on the device by their id."""
    return {model["id"]: model for model in device.client.get_json("/headroom/memory")["models"]}


def add_encode(graph, clip, text):
    return graph.add("HeadroomEncodeToCPU", clip=clip, text=text, split="one prompt",
                     release_encoder=True, cache="off")


def every_node():
    """A prompt of every node of ours but Load Conditioning, whose file it writes: `kept`."""
    graph = Graph()
    graph.prompt = workflows.published_prompt("start_here")
    small = {"ckpt_name": Path(TEST_CHECKPOINT).name, "steps": 1, "sizes": "64x64"}
    for node in graph.prompt.values():
        node["inputs"].update({name: value for name, value in small.items()
                               if node["inputs"].get(name)})
    graph.add("HeadroomSaveConditioning", conditioning=["5", 0], name="kept")
    return graph


def gauge(page, name):
    """One figure of the page for Prometheus."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"headroom_{name}")]
    return float(line.rpartition(" ")[2])
