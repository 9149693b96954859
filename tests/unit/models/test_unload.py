"""The published diffusers case: after encode_prompt alone no text encoder stays on the GPU."""

from importlib.util import find_spec

import pytest
import torch

import headroom
from headroom.base.tensors import module_bytes
from headroom.models.find import find_models

# Not imported here: every test process reads all files.
pytestmark = pytest.mark.skipif(find_spec("diffusers") is None or find_spec("transformers") is None,
                                reason="needs diffusers and transformers from PyPI")


@pytest.fixture
def pipeline(tmp_path, gpu):
    from support import tiny_diffusers

    return tiny_diffusers.pipeline_in(tmp_path)


def encode(pipeline):
    with torch.inference_mode():
        return pipeline.encode_prompt("a red cube", "cuda", 1, True)


def on_gpu(pipeline):
    return sorted(
        name for name, part in pipeline.components.items()
        if isinstance(part, torch.nn.Module) and "cuda:0" in module_bytes([part])
    )


def test_with_model_offload_the_last_text_encoder_leaves_and_encodes_the_same_again(pipeline):
    pipeline.enable_model_cpu_offload(device="cuda")
    first = encode(pipeline)
    assert on_gpu(pipeline) == ["text_encoder"]  # the published problem
    report = headroom.offload(pipeline)
    assert on_gpu(pipeline) == []
    assert torch.cuda.memory_allocated() == sum(-(-t.nbytes // 512) * 512 for t in first)
    assert "its own maybe_free_model_hooks" in report.text
    assert all(torch.equal(a, b) for a, b in zip(first, encode(pipeline), strict=True))


def test_without_hooks_every_component_is_moved_and_named(pipeline):
    pipeline.to("cuda")
    size = sum(sum(module_bytes(model.modules).values()) for model in find_models(pipeline))
    report = headroom.offload(pipeline)
    assert on_gpu(pipeline) == [] and torch.cuda.memory_allocated() == 0
    assert f"{size / 2**20:.1f} MiB of weights left the GPU" in report.headline
    for name in ("text_encoder", "unet", "vae"):
        assert name in report.text


def test_offload_to_disk_maps_every_component_bit_for_bit(pipeline):
    pipeline.to("cuda")
    first = [t.cpu() for t in encode(pipeline)]
    assert "from a new scratch file" in headroom.offload(pipeline, to="disk").text
    pipeline.to("cuda")
    assert all(torch.equal(a, b.cpu()) for a, b in zip(first, encode(pipeline), strict=True))


def test_a_pipeline_that_is_on_the_cpu_reports_zero(pipeline):
    report = headroom.offload(pipeline)
    assert "0.0 MiB of weights left the GPU: the model was not on it" in report.headline


def test_a_bare_module_returns_to_the_gpu_when_it_is_used_there_again(gpu):
    module = torch.nn.Linear(8, 8).to("cuda")
    value = torch.randn(2, 8).to("cuda")
    with torch.inference_mode():
        expected = module(value).cpu()
        headroom.offload(module)
        assert module.weight.device.type == "cpu"
        assert torch.equal(module(value).cpu(), expected)
    assert module.weight.device.type == "cuda"


def test_a_module_that_accelerate_runs_on_the_gpu_is_refused_and_runs_as_before(gpu):
    from accelerate import dispatch_model

    module = dispatch_model(torch.nn.Linear(8, 8), {"": 0}, force_hooks=True)
    value = torch.randn(2, 8)  # the hooks move it to the GPU
    with torch.inference_mode():
        expected = module(value).cpu()
        with pytest.raises(ValueError, match="load the model without device_map"):
            headroom.offload(module)
        assert torch.equal(module(value).cpu(), expected)


def test_a_pipeline_that_accelerate_spread_over_devices_is_refused(pipeline):
    from accelerate import dispatch_model

    pipeline.unet = dispatch_model(pipeline.unet, {"": 0}, force_hooks=True)
    with pytest.raises(ValueError, match="load the model without device_map"):
        headroom.offload(pipeline)
    assert on_gpu(pipeline) == ["unet"]


def test_a_module_that_accelerate_keeps_off_the_gpu_is_left_alone(gpu):
    from accelerate import cpu_offload

    module = cpu_offload(torch.nn.Linear(8, 8), execution_device=torch.device("cpu"))
    assert "the model was not on it" in headroom.offload(module).headline


def test_a_shell_that_its_pack_fills_with_weights_at_each_use_is_left_alone(gpu):
    module = torch.nn.Sequential(torch.nn.Linear(8, 8, device="meta"), torch.nn.Linear(8, 8))
    module[1].to("cuda")  # a LoRA, for instance
    report = headroom.offload(module)
    assert "the model was not on it" in report.headline
    assert report.steps == ("Sequential: 0 MiB, its pack loads its weights when it uses it",)
    assert [part.weight.device.type for part in module] == ["meta", "cuda"]


def test_a_pipeline_with_a_shell_in_it_unloads_the_other_components(pipeline):
    pipeline.to("cuda")
    pipeline.unet.conv_in.to("meta")
    headroom.offload(pipeline)
    assert on_gpu(pipeline) == ["unet"]
