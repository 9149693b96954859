"""OOM Guard where one sampling uses two models: Dual Model CFG Guider."""

import pytest
from support.cast import add_cast
from support.oom import GUARD, add_guard, assert_same_bits, checkpoint, latents, run_sweep, text

from tools.graph import Graph

pytestmark = pytest.mark.host


def swept(sim, newest_comfyui, **settings):
    gpu, graph = sim(2048, comfyui=newest_comfyui), Graph()
    loader = checkpoint(graph)
    other = add_cast(graph, loader[0])
    return run_sweep(
        gpu, graph, "OomSweepSampling", add_guard(graph, loader[0], **GUARD), loader[0],
        positive=text(graph, loader, "a red cube"), negative=text(graph, loader, "blurry"),
        latent=latents(graph), steps=2, cfg=4.0, sampler="euler", guider="two models",
        negative_model=other[0], **settings)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_failed_step_keeps_both_models_of_a_dual_model_guider(sim, newest_comfyui, times):
    answer = swept(sim, newest_comfyui, begins="SAMPLER_SAMPLE", stride=397, times=times)
    assert_same_bits(answer, least=2)
