"""What our nodes promise where ComfyUI streams weights through dynamic VRAM.

A real NVIDIA GPU has it, and the fake driver. Its pages are not in torch's counters: the driver
and ComfyUI tell.
"""

import pytest
from support.facts import figure
from support.gpus import FAKE, REAL

from tools.client import node_texts
from tools.graph import Graph, add_checkpoint, add_offload, add_purge, add_sampler
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B

with_pages = pytest.mark.parametrize("gpu", [FAKE, REAL], indirect=True)

ROOMY_MIB = 8192


@pytest.fixture
def device(newest_comfyui, gpu):
    """A server with dynamic VRAM on; skips where the newest ComfyUI or this GPU has none."""
    device = gpu(ROOMY_MIB, dynamic_vram=True, comfyui=newest_comfyui)
    if pages_mib(device) is None:
        pytest.skip("ComfyUI runs without dynamic VRAM on this GPU")
    device.client.run(sampled_and_purged(seed=1)[0].prompt)  # kernels load at their first use
    return device


def pages_mib(device):
    """The dynamic-VRAM pages on the GPU; None where there is no such thing."""
    (found,) = [one["dynamic_mib"] for one in device.client.get_json("/headroom/memory")["devices"]]
    return found


def sampled_and_purged(seed):
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=seed)
    return graph, add_purge(graph, value=latent)


@with_pages
def test_after_a_purge_no_page_stays_and_the_driver_has_the_memory_back(device):
    idle = device.collect().free_bytes
    graph, purge = sampled_and_purged(seed=2)
    report = node_texts(device.client.run(graph.prompt))[purge.id]
    before, after = figure(report, "dynamic-VRAM pages")
    assert before > 0 and after == pages_mib(device) == 0
    assert idle - device.collect().free_bytes <= device.workspace_bytes


@with_pages
def test_offloading_one_of_two_models_takes_its_pages_alone(device):
    graph = Graph()
    a, b = add_checkpoint(graph, TEST_CHECKPOINT), add_checkpoint(graph, TEST_CHECKPOINT_B)
    both = graph.add("LatentAdd", samples1=add_sampler(graph, a[0], a[1], seed=3),
                     samples2=add_sampler(graph, b[0], b[1], seed=3))
    offload = add_offload(graph, model=a[0], after=both)
    last = graph.add("ProbeLoaded", after=offload[1], model=b[0])
    texts = node_texts(device.client.run(graph.prompt))
    before, after = figure(texts[offload.id], "dynamic-VRAM pages")
    assert 0 < after < before
    assert '"module"' in texts[last.id]  # b is still there


@pytest.mark.parametrize("gpu", [REAL], indirect=True)
def test_a_model_offloaded_between_two_samplings_gives_the_same_latent(device):
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    first = add_sampler(graph, checkpoint[0], checkpoint[1], seed=5)
    offload = add_offload(graph, model=checkpoint[0], after=first)
    second = add_sampler(graph, offload, checkpoint[1], seed=5)
    digests = [graph.add("ProbeTensor", value=node) for node in (first, second)]
    texts = node_texts(device.client.run(graph.prompt))
    assert texts[digests[0].id] == texts[digests[1].id]
