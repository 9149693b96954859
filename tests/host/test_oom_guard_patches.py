"""OOM Guard on a model with ComfyUI's model patches, which keep data from one block to the next."""

import pytest
from support.oom import (
    GUARD,
    IN_STEPS,
    ONLY_SPLIT,
    add_guard,
    assert_same_bits,
    assert_split,
    run_sweep,
)

from tools.graph import Graph

pytestmark = pytest.mark.host


def swept(sim, newest_comfyui, options=GUARD, made="OomTinyZImage", **settings):
    gpu, graph = sim(2048, comfyui=newest_comfyui), Graph()
    made = graph.add(made)
    model, positive, negative, latent = (made[i] for i in range(4))
    return run_sweep(gpu, graph, "OomSweepSampling", add_guard(graph, model, **options), model,
                     positive=positive, negative=negative, latent=latent, steps=2, cfg=4.0,
                     sampler="euler", **settings)


def test_one_failed_allocation_anywhere_beside_a_model_patch_gives_the_same_bits(
    sim, newest_comfyui
):
    answer = swept(sim, newest_comfyui, begins="SAMPLER_SAMPLE", stride=370)
    assert_same_bits(answer, least=4)


def test_a_batch_beside_a_model_patch_can_be_split(sim, newest_comfyui):
    assert_split(swept(sim, newest_comfyui, ONLY_SPLIT, stride=485, **IN_STEPS))


@pytest.mark.parametrize(("made", "part"), [
    ("OomTinyFlux2", {"stride": 23, "last": 240}),
    ("OomTinyAnimate2", {"first": 310, "stride": 24, "last": 440}),
])
def test_a_failed_step_beside_what_caches_for_later_steps_gives_the_same_bits(
    sim, newest_comfyui, made, part
):
    """Flux KV Cache, and the pose of Wan Animate 2, which the first step keeps in 8 bits: the
    repeated step would find what the failed one had put there."""
    answer = swept(sim, newest_comfyui, made=made, begins="SAMPLER_SAMPLE", **part)
    assert_same_bits(answer, least=6)
