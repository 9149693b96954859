"""ComfyUI with its own defaults on the fake driver: PyTorch's allocator, ComfyUI's pager."""

import pytest

from tools.graph import Graph, add_checkpoint, add_sampler
from tools.models import TEST_CHECKPOINT

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]


def test_a_prompt_runs_and_the_driver_saw_it(fake):
    device = fake(8192)
    before = device.driver.device()
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    graph.add("ProbeTensor", value=latent)
    device.client.run(graph.prompt)
    after = device.driver.device()
    print(before.words, after.words, device.ledger(), device.client.get_json("/headroom/memory"))
    assert after.launches > before.launches
    assert after.htod_bytes - before.htod_bytes > 100 << 20
