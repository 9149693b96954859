"""A real diffusers pipeline cast as a whole: a private copy, and the source as it was."""

from importlib.util import find_spec

import pytest
import torch

import headroom

# Not imported here: every test process reads all files.
pytestmark = pytest.mark.skipif(find_spec("diffusers") is None or find_spec("transformers") is None,
                                reason="needs diffusers and transformers from PyPI")


@pytest.fixture
def pipeline(tmp_path):
    from support import tiny_diffusers

    return tiny_diffusers.pipeline_in(tmp_path)


def dtypes(pipeline):
    return {
        name: {parameter.dtype for parameter in part.parameters()}
        for name, part in pipeline.components.items() if isinstance(part, torch.nn.Module)
    }


def embed(pipeline):
    with torch.inference_mode():
        return pipeline.encode_prompt("a red cube", "cpu", 1, True)[0]


def test_every_component_is_cast_and_the_source_answers_as_before(pipeline):
    first, sources = embed(pipeline), dict(pipeline.components)
    done = headroom.cast(pipeline)
    assert type(done.value) is type(pipeline)
    table = "position table"
    kept = {item.name for model in done.models for item in model.kept if item.kept == table}
    assert all("position_embedding" in name for name in kept)
    for part in done.value.components.values():
        if isinstance(part, torch.nn.Module):
            assert {p.dtype for n, p in part.named_parameters() if n not in kept} == {
                torch.bfloat16}
    assert all(found == {torch.float32} for found in dtypes(pipeline).values())
    assert all(pipeline.components[name] is part for name, part in sources.items())
    assert torch.equal(embed(pipeline), first)
    error = (embed(done.value).float() - first).norm() / first.norm()
    assert 0 < error < 0.05
    assert done.value.tokenizer is pipeline.tokenizer


def test_the_cast_pipeline_makes_a_picture_near_that_of_the_source(pipeline):
    latents = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))

    def picture(pipe):
        given = latents.to(pipe.unet.dtype)  # noise drawn in bfloat16 would be other noise
        return pipe("a red cube", num_inference_steps=1, height=32, width=32, output_type="np",
                    latents=given).images

    pipeline.set_progress_bar_config(disable=True)
    exact, half = picture(pipeline), picture(headroom.cast(pipeline, keep_float32="norm").value)
    assert exact.shape == half.shape
    assert 0 < abs(exact - half).max() < 0.1


def test_a_pipeline_with_offload_hooks_is_refused_before_anything_is_copied(pipeline):
    import simgpu

    simgpu.switch_on(64 * 2**20)
    try:
        pipeline.enable_model_cpu_offload(device="cuda")
        with pytest.raises(ValueError, match="without offload hooks"):
            headroom.cast(pipeline)
    finally:
        pipeline.remove_all_hooks()
        simgpu.switch_off()
