"""A simulated GPU in the process of the test."""

import pytest

import simgpu

MIB = 1 << 20


@pytest.fixture
def device():
    """A simulated GPU of 256 MiB in this process, for one test."""
    made = simgpu.switch_on(256 * MIB)
    yield made
    simgpu.switch_off()


@pytest.fixture(params=["inference_mode", "no_grad"])
def mode(request):
    """Both ways ComfyUI runs code in: operations arrive whole, or already decomposed."""
    import torch

    with getattr(torch, request.param)():
        yield request.param
