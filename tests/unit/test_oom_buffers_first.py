"""A run that had to stream weights begins the next time with its buffers as large as they grew."""

from types import SimpleNamespace

import pytest
import torch

from headroom.guard import buffers_first, lessons
from headroom.guard import model as guard_model
from headroom.guard.options import GuardOptions
from headroom.guard.run import KEY, GuardedRun

MIB = 1 << 20
GPU = torch.device("cuda:0")
PATCHER = SimpleNamespace(load_device=GPU)


@pytest.fixture(autouse=True)
def forget():
    lessons.forget_all()
    yield
    lessons.forget_all()


def host(sizes=(64 * MIB, 32 * MIB), streamed=1600 * MIB):
    return SimpleNamespace(buffer_sizes=lambda device: sizes,
                           streamed_bytes=lambda patcher: streamed)


def test_the_next_run_of_the_kind_knows_how_large_the_buffers_became():
    assert buffers_first.recall("kind", 678 * MIB) == ()
    buffers_first.learn(host(), "kind", PATCHER, 678 * MIB)
    assert buffers_first.recall("kind", 662 * MIB) == (64 * MIB, 32 * MIB)
    assert buffers_first.recall("another kind", 662 * MIB) == ()
    assert lessons.recall("kind", 662 * MIB) is None  # nothing had failed


def test_with_more_memory_the_buffers_grow_when_they_are_needed():
    buffers_first.learn(host(), "kind", PATCHER, 678 * MIB)
    assert buffers_first.recall("kind", 800 * MIB) == ()


@pytest.mark.parametrize("found", [host(sizes=()), host(sizes=(0, 0)), host(streamed=90 * MIB)])
def test_weights_that_stay_on_the_device_need_no_buffers(found):
    buffers_first.learn(found, "kind", PATCHER, 678 * MIB)
    assert buffers_first.recall("kind", 678 * MIB) == ()


def test_the_first_step_makes_them_before_it_computes_and_no_other_does():
    events = []
    guard = SimpleNamespace(make_buffers=lambda device, sizes: events.append(("made", sizes)))
    own = guard_model._Guard(GuardOptions(), guard)
    run = GuardedRun()
    run.buffers = (64 * MIB, 32 * MIB)
    options = {"transformer_options": {KEY: run}}
    executor = Executor(lambda *args: events.append("computed"))
    for _ in range(2):
        own.step(executor, torch.zeros(1), None, options)
    assert events == [("made", (64 * MIB, 32 * MIB)), "computed", "computed"]


class Executor:
    """What ComfyUI gives to a wrapper: the next function, and the guider it belongs to."""

    def __init__(self, function):
        self._function = function
        self.class_obj = SimpleNamespace(inner_model=None, conds={})

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)
