"""A prompt without any guard runs out of memory in a real ComfyUI and gets a second life."""

import pytest
from support.oom import PACK
from support.rescue import live, picture, pictures

pytestmark = pytest.mark.host


@pytest.fixture
def gpu(sim):
    return sim(2048, packs=(PACK,))


def pixels(data):
    import io

    from PIL import Image

    return [Image.open(io.BytesIO(one)).tobytes() for one in data]


def test_every_node_can_fail_and_the_pixels_are_those_of_the_unfailed_run(gpu):
    prompt = picture(1, extras=True).prompt
    gpu.unload()
    gpu.arm_fault(at=10**9)
    plain = live(gpu.client, prompt)
    wanted = pixels(pictures(gpu.client, plain.first))
    total = gpu.fault()["seen"]
    failed = set()
    for at in range(1, total, total // 24):
        gpu.unload()
        gpu.arm_fault(at=at)
        lives = live(gpu.client, prompt)
        assert gpu.fault()["failed"] == 1
        gpu.disarm()
        assert lives.succeeded, lives.last["status"]
        assert pixels(pictures(gpu.client, lives.last)) == wanted
        assert lives.finished <= lives.cached
        failed.add(lives.failed)
    assert {"positive", "sampler"} <= failed
