"""The wrappers of a guarded MODEL: training passes through them."""

from types import SimpleNamespace

import pytest
import torch
from support.hosts import GuardHost

from headroom.guard.call import GuardOptions
from headroom.guard.errors import OomGuardError
from headroom.guard.sampling import _Guard


class Fails:
    """The next wrapper: it runs out of memory in each call, and counts them."""

    def __init__(self):
        self.calls = 0
        patcher = SimpleNamespace(
            load_device=torch.device("cpu"), model=None, model_size=lambda: 0)
        self.class_obj = SimpleNamespace(
            model_options={}, model_patcher=patcher, conds={}, inner_model=None)

    def __call__(self, *_, **__):
        self.calls += 1
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")


@pytest.mark.parametrize("wrapper", ["sample", "step"])
def test_a_part_of_a_training_that_fails_is_not_repeated(wrapper):
    """What has been learned would be learned again."""
    fails, latents = Fails(), torch.zeros(2, 4, 8, 8)
    with torch.enable_grad(), pytest.raises(torch.OutOfMemoryError, match="1.00 GiB"):
        getattr(_Guard(GuardOptions(), GuardHost()), wrapper)(fails, latents, 1.0)
    assert fails.calls == 1


def test_a_sampling_that_failed_for_good_leaves_nothing_in_its_controlnets():
    """Their prepared pictures would stay on the GPU until the next sampling, after a purge too."""
    fails, cleaned = Fails(), []
    host = GuardHost(end_sampling=cleaned.append, picture_size=lambda *_: "")
    with torch.no_grad(), pytest.raises(OomGuardError):
        _Guard(GuardOptions(max_attempts=0), host).sample(fails, torch.zeros(2, 4, 8, 8))
    assert cleaned == [fails.class_obj]
