"""How large the pieces of a joined call are: after a failure, and after a step that worked."""

import pytest
from support.shortages import GPU, lacking

from headroom.guard.footprint import Footprint
from headroom.guard.run import GuardedRun
from headroom.guard.run_steps import SplitBatch
from headroom.guard.shortage import Shortage


def run_of(rows, images):
    run = GuardedRun()
    run.start_step()
    run.saw(rows, 1, images)
    return run


@pytest.mark.parametrize(("rows", "images", "room", "limit"), [
    (16, 8, 950, 8),  # 15 rows would fit: two conditionings of 8 are no slower than 8 and 7
    (16, 8, 400, 4),  # six would fit, but 6 and 2 of each are no faster than 4 and 4
    (16, 8, 300, 4),
    (16, 16, 700, 8),
    (16, 8, 10, 1),
])
def test_the_pieces_are_the_fewest_that_can_fit_and_no_larger_than_need_be(
    rows, images, room, limit
):
    run = run_of(rows, images)
    SplitBatch(run).take(lacking(1000, room), 8)
    assert run.limit == limit


def test_the_first_pieces_fit_by_comfyuis_estimate():
    run = run_of(16, 16)
    SplitBatch(run, needs=lambda rows: 100 * rows).take(lacking(1000, 500), 8)
    assert run.limit == 4  # five would fit, and four times four is no slower


def test_what_streaming_the_weights_takes_is_left_out_of_what_the_pieces_share():
    """SD1.5, 8 images on 271 MiB: the largest layers take 128, of which 32 were there already."""
    run = run_of(8, 8)
    found = Shortage("device", GPU, 160, 57, need_bytes=317, room_bytes=260, buffers_bytes=32)
    SplitBatch(run, needs=lambda rows: 82 * rows, buffers=lambda: 128).take(found, 8)
    assert run.limit == 1  # 3 and 2 were tried in vain: the buffers had not grown yet


def test_where_streaming_takes_all_the_room_the_pieces_are_as_small_as_can_be():
    run = run_of(16, 16)
    SplitBatch(run, needs=lambda rows: 10 * rows, buffers=lambda: 400).take(lacking(), 8)
    assert run.limit == 1


def test_after_a_step_the_pieces_are_as_large_as_what_they_took_allows():
    run = run_of(16, 16)
    SplitBatch(run).take(lacking(1000, 120), 8)
    assert run.limit == 1
    run.worked(Footprint(need_bytes=50, room_bytes=500))
    assert run.limit == 8  # ten would fit
    assert run.need_bytes == 400  # so much has to stay free of weights in the next prompt


def one_row_took(need_bytes, room_bytes):
    """A run of two times four rows, after four have failed and a single one took so much."""
    run = run_of(8, 4)
    run.limit, run.too_many = 1, 4
    run.worked(Footprint(need_bytes, room_bytes))
    return run


def test_two_rows_are_tried_where_one_took_a_little_over_half_the_room():
    run = one_row_took(182, 353)  # as measured, SDXL on 496 MiB
    assert run.limit == 2 and run.works == 1


def test_what_is_kept_free_for_larger_pieces_is_never_more_than_there_was():
    assert one_row_took(182, 353).need_bytes == 353


def test_two_rows_are_not_tried_where_one_took_clearly_more_than_half_the_room():
    assert one_row_took(200, 353).limit == 1


def test_pieces_that_have_failed_are_not_tried_again():
    run = run_of(16, 16)
    step = SplitBatch(run)
    step.take(lacking(1000, 120), 8)
    run.worked(Footprint(need_bytes=50, room_bytes=500))
    step.take(lacking(), 7)
    assert run.limit == 1  # what worked before
    run.worked(Footprint(need_bytes=50, room_bytes=500))
    assert run.pieces(run.limit) > run.pieces(8)


def test_a_step_that_ran_whole_keeps_its_batch():
    run = run_of(4, 2)
    run.worked(Footprint(need_bytes=50, room_bytes=500))
    assert run.limit is None and run.need_bytes == 50
