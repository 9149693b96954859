"""OOM Guard on what only newer ComfyUIs have: patches that keep data, and two models at once."""

import pytest
from support.cast import add_cast
from support.oom import (
    IN_STEPS,
    ONLY_SPLIT,
    assert_same_bits,
    assert_split,
    checkpoint,
    latents,
    sweep_sampling,
    text,
)

from tools.graph import Graph, picture

pytestmark = pytest.mark.host


@pytest.fixture
def gpu(sim, newest_comfyui):
    return sim(2048, comfyui=newest_comfyui)


def swept(gpu, options=None, made="OomTinyZImage", **settings):
    graph = Graph()
    made = graph.add(made)
    model, positive, negative, latent = (made[i] for i in range(4))
    return sweep_sampling(gpu, graph, model, options, positive=positive, negative=negative,
                          latent=latent, **settings)


def test_one_failed_allocation_anywhere_beside_a_model_patch_gives_the_same_bits(gpu):
    assert_same_bits(swept(gpu, begins="SAMPLER_SAMPLE", stride=370), least=4)


def test_a_batch_beside_a_model_patch_can_be_split(gpu):
    assert_split(swept(gpu, ONLY_SPLIT, stride=485, **IN_STEPS))


@pytest.mark.parametrize(("made", "part"), [
    ("OomTinyFlux2", {"stride": 23, "last": 240}),
    ("OomTinyAnimate2", {"first": 310, "stride": 24, "last": 440}),
])
def test_a_failed_step_beside_what_caches_for_later_steps_gives_the_same_bits(gpu, made, part):
    """Flux KV Cache, and the pose of Wan Animate 2, which the first step keeps in 8 bits: the
    repeated step would find what the failed one had put there."""
    answer = swept(gpu, made=made, begins="SAMPLER_SAMPLE", **part)
    assert_same_bits(answer, least=6)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_failed_step_keeps_both_models_of_a_dual_model_guider(gpu, times):
    graph = Graph()
    loader = checkpoint(graph)
    answer = sweep_sampling(
        gpu, graph, loader[0], positive=text(graph, loader, "a red cube"),
        negative=text(graph, loader, "blurry"), latent=latents(graph), guider="two models",
        negative_model=add_cast(graph, loader[0])[0], begins="SAMPLER_SAMPLE", stride=397,
        times=times)
    assert_same_bits(answer, least=2)


def test_what_a_loader_with_an_older_name_gives_is_guarded_and_its_prompt_runs(gpu):
    """ComfyUI replaces the name, and numbers the outputs anew at the wires of the prompt."""
    prompt = {name: {**node, "_meta": {"title": name}} for name, node in picture(3).prompt.items()}
    prompt["1"]["class_type"] = "WorldOlderLoader"
    entry = gpu.client.run(prompt, extra_data={"headroom": {"guard": True}})
    run = gpu.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    classes = [node["class_type"] for node in run["nodes"]]
    assert classes.count("WorldLoader") == 1 and classes.count("HeadroomOOMGuard") == 3
