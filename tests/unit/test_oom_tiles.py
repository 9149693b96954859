"""Fewer images, then smaller tiles."""

import pytest
import torch

from headroom.guard.footprint import Footprint
from headroom.guard.plan import Plan
from headroom.guard.shortage import Shortage
from headroom.guard.tiles import FewerImages, SmallerTiles, images_apart, joined, tile_count

NOTHING_KNOWN = Shortage("device")


def lacking(need=1 << 20, room=250_000):
    return Shortage("device", missing_bytes=need - room, need_bytes=need, room_bytes=room)


def taken(step, read, tries=8, shortage=NOTHING_KNOWN):
    seen = []
    while step.take(shortage, tries) is not None:
        seen.append(read())
    return seen


def test_images_halve_down_to_one():
    plan = Plan(seen=8)
    assert taken(FewerImages(plan), lambda: plan.images) == [4, 2, 1]


def test_as_many_images_as_fit_are_computed_in_equal_parts():
    plan = Plan(seen=8)
    FewerImages(plan).take(lacking(need=1000, room=800), 8)
    assert plan.images == 4  # six fit, and two times four is no slower than six and two


def test_a_single_image_cannot_be_halved():
    assert FewerImages(Plan(seen=1)).take(NOTHING_KNOWN, 8) is None


@pytest.mark.parametrize(("side", "smallest", "sizes"), [
    (64, 8, [32, 16, 8]), (65, 8, [32, 16, 8]), (8, 8, []), (9, 8, [8]), (100, 64, [64]),
])
def test_tiles_halve_down_to_the_smallest_where_nobody_can_tell_what_fits(side, smallest, sizes):
    plan = Plan()
    assert taken(SmallerTiles(plan, [side, side], smallest), lambda: plan.tile) == sizes


def test_the_first_tiles_are_the_largest_that_fit_by_estimate():
    plan = Plan()
    step = SmallerTiles(plan, [128, 96], 8, needs=lambda tile: tile * tile * 100)
    step.take(lacking(room=250_000), 8)
    assert plan.tile == 48  # 48 * 48 * 100 = 230,400; the next, 56, would take 313,600


def test_tiles_that_failed_although_they_were_to_fit_are_a_quarter_smaller_then_half():
    plan = Plan()
    step = SmallerTiles(plan, [128, 128], 8, needs=lambda tile: tile * tile)
    found = taken(step, lambda: plan.tile, shortage=lacking(room=600_000))
    assert found == [96, 72, 32, 16, 8]


@pytest.mark.parametrize(("room", "tile"), [(373, 64), (360, 48)])
def test_sd15s_own_tile_is_taken_down_to_where_it_just_fits(room, tile):
    """1024x1024: it takes 366 MiB; half of ComfyUI's estimate for it is 544.5."""
    plan = Plan()
    step = SmallerTiles(plan, [128, 128], 8, needs=lambda side: 544.5 * (side / 64) ** 2, own=64)
    step.take(Shortage("device", None, 256, 716, need_bytes=1089, room_bytes=room), 8)
    assert plan.tile == tile


def test_comfyuis_own_tile_is_taken_where_it_can_fit_at_all():
    def first(room):
        plan = Plan()
        step = SmallerTiles(plan, [128, 128], 8, needs=lambda tile: tile * 5, own=64)
        step.take(lacking(need=800, room=room), 8)
        return plan.tile

    assert (first(330), first(230), first(205)) == (64, 64, 40)


def test_tiles_are_smaller_than_those_that_were_asked_for():
    plan = Plan()
    SmallerTiles(plan, [128, 128], 8, below=32, needs=lambda tile: 0).take(lacking(), 8)
    assert plan.tile == 24


def test_a_picture_that_lacks_little_is_not_cut_into_the_smallest_tiles():
    step = SmallerTiles(Plan(), [128, 128], 8)
    assert step.spares(lacking(need=1 << 30)) == (1 << 30) - (1 << 30) // 256


def test_the_next_time_tiles_are_as_large_as_what_these_took_allows():
    plan = Plan(tile=32)
    step = SmallerTiles(plan, [128, 128], 8)
    assert step.larger(Footprint(need_bytes=100, room_bytes=1000)) == 96
    assert step.larger(Footprint(need_bytes=100, room_bytes=100_000)) == 124
    assert step.larger(Footprint(need_bytes=100, room_bytes=100)) == 32


def test_no_tile_is_larger_than_its_number_of_tiles_asks_for():
    """Wan, 832x480: two tiles of 480 pixels hold the picture as well as two of 768."""
    def video(tile):
        return tile_count((60, 104), tile, is_video=True)

    plan = Plan()
    step = SmallerTiles(plan, [60, 104], 8, count=video)
    step.take(lacking(need=1000, room=999), 8)
    assert plan.tile == 60
    assert step.larger(Footprint(need_bytes=100, room_bytes=1000)) == 60


def of_a_video(quiet, tile=None):
    plan = Plan(tile=tile)
    return plan, SmallerTiles(plan, [60, 104], 8, needs=lambda side: side * side, own=32,
                              quiet=lambda room_bytes: quiet)


def test_a_tile_of_a_video_takes_no_room_from_its_weights_as_long_as_it_is_not_below_comfyuis_own():
    for quiet, side in ((1600, 40), (1024, 32), (1023, 56), (None, 56)):
        plan, step = of_a_video(quiet)
        step.take(lacking(need=4000, room=3600), 8)
        assert plan.tile == side


def test_the_next_tile_of_a_video_is_the_largest_that_leaves_its_weights_where_they_are():
    took = Footprint(need_bytes=1600, room_bytes=3600)
    for quiet, side in ((1600, 40), (1500, 36), (1300, 36), (1024, 32), (1000, 56), (None, 56)):
        assert of_a_video(quiet, tile=40)[1].larger(took) == side


@pytest.mark.parametrize(("sides", "tile", "is_video", "count"), [
    ((60, 104), 96, True, 2), ((60, 104), 64, True, 2), ((60, 104), 56, True, 6),
    ((128, 128), 72, False, 16), ((128, 128), 64, False, 23), ((64, 64), 40, False, 16),
])
def test_tiles_are_counted_as_comfyui_lays_them(sides, tile, is_video, count):
    """A picture three times: square, wide and tall."""
    assert tile_count(sides, tile, is_video=is_video) == count


def test_the_last_attempt_takes_the_smallest_tiles():
    plan = Plan()
    SmallerTiles(plan, [128, 128], 8).take(NOTHING_KNOWN, 1)
    assert plan.tile == 8


def test_a_video_is_cut_in_time_after_its_tiles():
    plan = Plan()
    steps = taken(SmallerTiles(plan, [16, 16], 8, frames=8), lambda: (plan.tile, plan.frames))
    assert steps == [(8, None), (8, 4), (8, 2)]


def test_parts_of_a_batch_join_to_the_batch():
    value = torch.randn(5, 2)
    assert torch.equal(joined(images_apart(value, 2)), value)
    assert joined(images_apart(value, None)) is value
