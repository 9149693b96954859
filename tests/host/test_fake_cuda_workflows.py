"""The bundled workflows, small, on PyTorch's own allocators: what they leave on the device.

With two ComfyUI trees at hand each of them runs on one; HEADROOM_EVERY_WORLD=1 runs all of them in
every world of `support.worlds`.
"""

import pytest
from support.worlds import EVERYWHERE, HAS_BOTH, WORLDS

from tools import workflow_trials
from tools.bench_device import PROBES
from tools.workflows import WORKFLOWS

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]

CAPACITY_MIB = 16384
LIMIT_S = 900  # two busy cores
PLACES = list(WORLDS) if EVERYWHERE else ["oldest, default", "newest, default"]
CASES = [(world, name) for index, world in enumerate(PLACES) for place, name in enumerate(WORKFLOWS)
         if EVERYWHERE or not HAS_BOTH or place % 2 == index]


@pytest.fixture
def device(request, fake, world):
    """A server of a world and the files that the workflows ask for."""
    from tools.workflow_models import make_workflow_models

    chosen = WORLDS[world]
    env = {**workflow_trials.ENVIRONMENT, **({"PYTHONPATH": chosen.aimdo} if chosen.aimdo else {})}
    device = fake(CAPACITY_MIB, *chosen.flags, packs=[PROBES / "headroom_small_encoders"], env=env,
                  models_dir=make_workflow_models(), **chosen.settings,
                  comfyui=request.getfixturevalue("newest_comfyui") if chosen.newest else None)
    workflow_trials.write_example_picture(device.server.base_dir / "input")
    return device


def purged(device):
    """The driver's figures with no model loaded and no result kept."""
    device.unload()
    device.client.post_when_idle("/headroom/purge", {})
    return device.driver.device()


@pytest.mark.parametrize(("world", "name"), CASES)
def test_a_second_run_of_a_workflow_leaves_no_byte_more_than_the_first(device, name):
    left = []
    for _ in range(2):
        device.client.run(workflow_trials.small_prompt(name), timeout=LIMIT_S)
        left.append(purged(device).used_bytes)
        (told,) = device.client.get_json("/headroom/memory")["devices"]
        assert told["used_mib"] == pytest.approx(left[-1] / 2**20, abs=0.001)
        assert not device.client.get_json("/headroom/memory")["models"]
    assert left[1] <= left[0]
