"""Weights that another pack places on the GPU are counted, unloaded, and reported as they are."""

import pytest
from support.oom import GUARD, PACK, WORLDS, add_guard, run_sweep, text

from tools.graph import Graph, add_checkpoint, add_offload, add_sampler
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B

pytestmark = pytest.mark.host


@pytest.fixture
def gpu(sim):
    server = sim(2048, packs=(PACK, WORLDS / "world_placed_weights"))
    server.unload()
    return server


def sampled(graph):
    """A model whose weights a pack places, and the latent that it has sampled."""
    loader = add_checkpoint(graph, TEST_CHECKPOINT)
    model = graph.add("WorldPlacedWeights", model=loader[0])
    return model, add_sampler(graph, model, loader[1])


def diffusion_models(gpu):
    return [one for one in gpu.client.get_json("/headroom/memory")["models"]
            if one["kind"] == "diffusion model"]


def test_placed_weights_are_counted_and_the_report_names_the_bytes_that_left(gpu):
    graph = Graph()
    model, latent = sampled(graph)
    graph.add("SaveLatent", samples=latent, filename_prefix="placed")
    gpu.client.run(graph.prompt, timeout=300)
    [placed] = diffusion_models(gpu)
    assert placed["loaded_mib"] == pytest.approx(placed["total_mib"], rel=0.05)
    off = add_offload(graph, model=model, after=latent)
    entry = gpu.client.run(graph.prompt, timeout=300)
    [told] = [text for text in entry["outputs"][off.id]["text"] if "GPU" in text][:1]
    assert "not on it" not in told
    assert f"{placed['loaded_mib']:,.1f} MiB of weights left the GPU" in told
    assert all(one["loaded_mib"] == 0 for one in diffusion_models(gpu))


def test_a_guard_unloads_placed_weights_to_make_room(gpu):
    graph = Graph()
    _, latent = sampled(graph)
    loader = add_checkpoint(graph, TEST_CHECKPOINT_B)
    words = text(graph, loader, "a red cube")
    answer = run_sweep(
        gpu, graph, "OomSweepSampling", add_guard(graph, loader[0], **GUARD), loader[0],
        positive=words, negative=words, latent=latent, steps=2, cfg=4.0, sampler="euler",
        begins="SAMPLER_SAMPLE",
        first=200, stride=10_000, times=2)
    assert answer["problems"] == []
    assert len(diffusion_models(gpu)) == 1  # of the other, placed one nothing is loaded any more
