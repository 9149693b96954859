"""A simulated GPU in the process of the test."""

import gc

import pytest


@pytest.fixture
def gpu():
    """The simulated GPU as cuda:0 of this process."""
    import simgpu

    device = simgpu.switch_on(64 * 2**20)
    yield device
    gc.collect()
    simgpu.switch_off()
