"""Fewer images, then smaller tiles; copies of host objects that are guarded once."""

import pytest
import torch

from headroom.guard.copies import Guarded, guarded_copy, plain_class
from headroom.guard.failure import Failure
from headroom.guard.options import GuardOptions
from headroom.guard.tiles import FewerImages, Plan, SmallerTiles, images_apart, joined

DEVICE = Failure.of(torch.OutOfMemoryError())


def taken(step, read, tries=8):
    seen = []
    while step.take(DEVICE, tries) is not None:
        seen.append(read())
    return seen


def test_images_halve_down_to_one():
    plan = Plan(seen=8)
    assert taken(FewerImages(plan), lambda: plan.images) == [4, 2, 1]


def test_a_single_image_cannot_be_halved():
    assert FewerImages(Plan(seen=1)).take(DEVICE, 8) is None


@pytest.mark.parametrize(("side", "smallest", "sizes"), [
    (64, 8, [32, 16, 8]), (65, 8, [64, 32, 16, 8]), (8, 8, []), (9, 8, [8]), (100, 64, [64]),
])
def test_tiles_halve_from_below_the_side_to_the_smallest(side, smallest, sizes):
    plan = Plan()
    assert taken(SmallerTiles(plan, side, smallest), lambda: plan.tile) == sizes


def test_the_last_attempt_takes_the_smallest_tiles():
    plan = Plan()
    SmallerTiles(plan, 128, 8).take(DEVICE, 1)
    assert plan.tile == 8


def test_a_video_is_cut_in_time_after_its_tiles():
    plan = Plan()
    steps = taken(SmallerTiles(plan, 16, 8, frames=8), lambda: (plan.tile, plan.frames))
    assert steps == [(8, None), (8, 4), (8, 2)]


def test_parts_of_a_batch_join_to_the_batch():
    value = torch.randn(5, 2)
    assert torch.equal(joined(images_apart(value, 2)), value)
    assert joined(images_apart(value, None)) is value


class Thing:
    def __init__(self):
        self.patcher = object()

    def work(self, value):
        return value + 1


class Twice(Guarded):
    def work(self, value):
        return super().work(value) * 2


def test_a_guarded_copy_is_of_the_same_class_and_guarded_once():
    thing = Thing()
    once = guarded_copy(thing, Twice, GuardOptions(max_attempts=3))
    again = guarded_copy(once, Twice, GuardOptions(max_attempts=5))
    assert isinstance(again, Thing)
    assert type(again).__name__ == "Thing"
    assert again.patcher is thing.patcher
    assert (thing.work(1), once.work(1), again.work(1)) == (2, 4, 4)
    assert (once.guard_options.max_attempts, again.guard_options.max_attempts) == (3, 5)
    assert plain_class(again) is Thing
