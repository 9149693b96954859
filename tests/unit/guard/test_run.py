"""How large the pieces of a joined call are after a failure."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.hosts import GuardHost, Patcher
from support.shortages import lacking

from headroom.guard.call import GuardOptions, Plan
from headroom.guard.errors import OomGuardError
from headroom.guard.lack import Lack
from headroom.guard.run import Run
from headroom.guard.sampling import _Guard

NOTHING_KNOWN = Lack("device")


def run_of(rows, images, smallest=1):
    run = Run()
    run.start_step()
    run.saw(rows, smallest, images)
    return run


def limits(run, lack=NOTHING_KNOWN):
    found = []
    while (limit := run.fewer_rows(lack)) is not None:
        found.append(limit)
        run.plan = Plan(parts=limit)
    return found


@pytest.mark.parametrize(("rows", "images", "room", "limit"), [
    (16, 8, 950, 8),  # 12 rows would fit: two conditionings of 8 are no slower than 8 and 4
    (16, 8, 400, 4),  # six would fit, but 6 and 2 of each are no faster than 4 and 4
    (16, 8, 300, 4),
    (16, 16, 700, 8),
    (16, 8, 10, 1),
])
def test_the_pieces_are_the_fewest_that_can_fit_and_no_larger_than_need_be(
    rows, images, room, limit
):
    assert run_of(rows, images).fewer_rows(lacking(1000, room)) == limit


def test_the_split_halves_down_to_the_smallest_sound_piece():
    assert limits(run_of(8, 8)) == [4, 2, 1]
    assert limits(run_of(8, 4, smallest=4)) == [4]


def test_memory_for_streaming_weights_is_not_shared_out_to_pieces():
    """SD1.5, 8 images on 271 MiB: the largest layers take 128, of which 32 were there already."""
    found = replace(lacking(317, 260), buffers_bytes=32)
    assert run_of(8, 8).fewer_rows(found) == 4
    assert run_of(8, 8).fewer_rows(found, buffers_bytes=128) == 3


def test_where_streaming_takes_all_the_room_the_pieces_are_as_small_as_can_be():
    assert run_of(16, 16).fewer_rows(lacking(), buffers_bytes=400) == 1


def test_the_first_pieces_fit_by_comfyuis_estimate():
    # five would fit, and four times four is no slower
    assert run_of(16, 16).fewer_rows(lacking(1000, 500), row_bytes=100) == 4


def test_after_a_step_the_pieces_are_as_large_as_what_they_took_allows():
    run = run_of(16, 16)
    run.plan, run.too_many = Plan(parts=1), 16
    assert run.grow(50, 500)
    assert run.plan.parts == 8  # ten would fit


def one_row_took(took_bytes, room_bytes):
    """The pieces of two times four rows, after four have failed and a single one took so much."""
    run = run_of(8, 4)
    run.plan, run.too_many = Plan(parts=1), 4
    run.grow(took_bytes, room_bytes)
    return run.plan.parts, run.works


@pytest.mark.parametrize(("took", "found"), [(182, (2, 1)), (200, (1, 1))])
def test_two_rows_are_tried_where_one_took_a_little_over_half_the_room_and_not_clearly_more(
    took, found
):
    """As measured, SDXL on 496 MiB."""
    assert one_row_took(took, 353) == found


def test_pieces_that_have_failed_are_not_tried_again():
    run = run_of(16, 16)
    run.plan, run.too_many = Plan(parts=1), 16
    run.grow(50, 500)
    assert run.fewer_rows(lacking()) == 1  # what worked before
    run.plan, run.too_many = Plan(parts=1), 8
    run.grow(50, 500)
    assert run.plan.parts < 8


def test_a_step_that_ran_whole_keeps_its_batch():
    run = run_of(4, 2)
    assert not run.grow(50, 500)
    assert run.plan == Plan()


def test_pieces_that_have_failed_are_halved_at_least():
    run = run_of(16, 16)
    run.plan = Plan(parts=8)
    assert run.fewer_rows(lacking(1000, 990)) == 4


def test_the_last_attempt_splits_as_far_as_possible():
    assert run_of(16, 8, smallest=4).fewer_rows(Lack("device", is_last=True)) == 4


def test_a_split_before_the_first_call_of_a_step_goes_by_what_is_expected():
    run = Run()
    run.start_step(expected=4)
    assert run.fewer_rows(NOTHING_KNOWN) == 2


def test_a_step_that_fails_at_its_beginning_goes_by_the_one_before():
    run = run_of(6, 3)
    run.start_step()
    assert run.fewer_rows(NOTHING_KNOWN) == 3


def test_a_video_with_sound_is_told_by_the_size_and_the_frames_of_its_picture():
    """ComfyUI packs both into one row for its samplers."""
    def out_of_memory(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 MiB.")

    guider = SimpleNamespace(model_options={}, model_patcher=Patcher(), conds={})
    host = GuardHost(picture_size=lambda model, shape: f"{shape[-1]}x{shape[-2]}")
    out_of_memory.class_obj = guider
    told = r"fewer frames, or a smaller width and height \(now 6x4"
    with torch.inference_mode(), pytest.raises(OomGuardError, match=told):
        _Guard(GuardOptions(), host).sample(
            out_of_memory, torch.zeros(1, 1, 999), latent_shapes=[(1, 128, 3, 4, 6), (1, 8, 27)])
