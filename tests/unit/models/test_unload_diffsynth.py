"""The published DiffSynth case with DiffSynth's own pipeline: a loop of prompts fills the GPU."""

from importlib.util import find_spec

import pytest
import torch

import headroom
from headroom.base.tensors import module_bytes

# Not imported here: every test process reads all files.
pytestmark = pytest.mark.skipif(find_spec("diffsynth") is None,
                                reason="needs diffsynth from PyPI")

PROMPTS = [f"{'abcdefghij'[i]} fox in the snow" for i in range(8)]


@pytest.fixture(params=["plain", "managed"])
def pipeline(request, tmp_path, gpu):
    """All components on the GPU, and DiffSynth's own management of them."""
    from support import tiny_diffsynth

    made = tiny_diffsynth.pipeline_in(tmp_path)
    return tiny_diffsynth.manage_memory(made) if request.param == "managed" else made.to("cuda")


def encode(pipeline, prompt):
    from support import tiny_diffsynth

    return tiny_diffsynth.encode(pipeline, prompt)


def encoder_bytes(pipeline):
    return module_bytes([pipeline.text_encoder]).get("cuda:0", 0)


def test_a_loop_of_prompts_grows_and_with_to_cpu_and_offload_nothing_stays(pipeline):
    encode(pipeline, PROMPTS[0])
    start = torch.cuda.memory_allocated()
    kept = [encode(pipeline, prompt) for prompt in PROMPTS]
    grown = torch.cuda.memory_allocated() - start
    assert grown == sum(-(-each.nbytes // 512) * 512 for each in kept) > 0  # the published problem
    assert encoder_bytes(pipeline) > 0  # and the encoder stays
    expected = [each.cpu() for each in kept]
    del kept
    ours = []
    for prompt in PROMPTS:
        ours.append(headroom.to_cpu(encode(pipeline, prompt)).value)
        assert torch.cuda.memory_allocated() == start
    headroom.offload(pipeline)
    headroom.purge()
    assert encoder_bytes(pipeline) == 0
    assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 0
    assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def test_the_encoder_comes_back_and_encodes_the_same(pipeline):
    expected = encode(pipeline, PROMPTS[0]).cpu()
    report = headroom.offload(pipeline)
    assert "its own load_models_to_device" in report.text
    assert encoder_bytes(pipeline) == 0
    assert torch.equal(encode(pipeline, PROMPTS[0]).cpu(), expected)
