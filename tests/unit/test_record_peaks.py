"""A peak between two readings is exact where torch can tell, and bounded where it cannot."""

import random

import pytest

from headroom.record.memory import Peak, Reading, Use, between, larger, now, reached


def peak(before, after):
    (found,) = between(Reading(0, 0, (before,)), Reading(1, 0, (after,)))
    return found


def test_a_reserve_that_gave_nothing_back_peaked_at_its_end():
    before = Use(used_bytes=160, reserved_bytes=60, returned_bytes=500, peak_bytes=900)
    after = Use(used_bytes=608, reserved_bytes=508, returned_bytes=500, peak_bytes=900)
    assert peak(before, after) == Peak(608, 608)


def test_a_new_maximum_is_exact_even_when_all_of_it_was_given_back():
    before = Use(used_bytes=160, reserved_bytes=60, returned_bytes=0, peak_bytes=100)
    after = Use(used_bytes=160, reserved_bytes=60, returned_bytes=640, peak_bytes=700)
    assert peak(before, after) == Peak(800, 800)
    assert reached(before, after) == 800


def test_what_was_given_back_may_have_been_in_use_before():
    before = Use(used_bytes=160, reserved_bytes=60, returned_bytes=0, peak_bytes=900)
    after = Use(used_bytes=160, reserved_bytes=60, returned_bytes=400, peak_bytes=900)
    assert peak(before, after) == Peak(160, 560)
    assert reached(before, after) == 160


def test_what_was_given_back_in_one_turn_had_been_reserved_at_once():
    before = Use(160, 60, 0, 900, emptied_count=7)
    assert peak(before, Use(160, 60, 540, 900, emptied_count=8)) == Peak(640, 700)
    assert peak(before, Use(160, 60, 540, 900, emptied_count=10)) == Peak(280, 700)
    assert peak(before, Use(160, 60, 540, 900, emptied_count=7)) == Peak(160, 700)
    assert peak(before, Use(160, 60, 540, 900)) == Peak(160, 700)


def test_no_more_can_have_been_reserved_than_the_largest_reserve_ever():
    before = Use(used_bytes=160, reserved_bytes=60, returned_bytes=0, peak_bytes=300)
    after = Use(used_bytes=160, reserved_bytes=60, returned_bytes=400, peak_bytes=300)
    assert peak(before, after) == Peak(160, 400)


def test_an_allocator_that_counts_nothing_leaves_the_largest_reserve_as_the_bound():
    before, after = Use(160, 60, None, 300), Use(170, 70, None, 300)
    assert peak(before, after) == Peak(170, 400)
    assert peak(Use(160), Use(170)) == Peak(170, None)


def test_memory_beside_torch_that_fell_may_have_been_there_at_the_peak():
    pages = Use(used_bytes=5000, reserved_bytes=0, returned_bytes=0, peak_bytes=9000)
    torch_instead = Use(used_bytes=4000, reserved_bytes=3500, returned_bytes=0, peak_bytes=9000)
    assert peak(pages, torch_instead) == Peak(5000, 8500)


def test_somebody_who_resets_torchs_counters_makes_nothing_exact():
    before = Use(used_bytes=160, reserved_bytes=60, returned_bytes=500, peak_bytes=900)
    after = Use(used_bytes=160, reserved_bytes=60, returned_bytes=0, peak_bytes=60)
    assert peak(before, after) == Peak(160, None)


def test_a_device_that_was_not_in_use_before_has_no_upper_bound():
    assert peak(Use(), Use(500, 200, 0, 200)) == Peak(500, None)
    assert peak(Use(), Use()) is None


def test_two_times_together_are_as_certain_as_the_less_certain_one():
    assert larger((Peak(5, 5),), (Peak(3, 9),)) == (Peak(5, 9),)
    assert larger((Peak(5, None),), (Peak(3, 9),)) == (Peak(5, None),)
    assert larger((None,), (Peak(3, 9),)) == (Peak(3, 9),)
    assert now(Reading(0, 0, (Use(7), Use()))) == (Peak(7, 7), None)


@pytest.mark.parametrize("seed", range(20))
def test_the_true_peak_is_never_outside_of_the_bounds(seed):
    """A random allocator, read at random moments: the truth is known at every step."""
    draw = random.Random(seed)
    other, reserve, returned, largest, turns = 100, 0, 0, 0, 0
    last, true, exact = Use(100, 0, 0, 0, emptied_count=0), 100, 0
    for _ in range(3000):
        kind = draw.random()
        if kind < 0.5:
            reserve += draw.randrange(50)
        elif kind < 0.6:
            freed = draw.randrange(reserve + 1)
            reserve, returned, turns = reserve - freed, returned + freed, turns + 1
        largest, true = max(largest, reserve), max(true, other + reserve)
        if draw.random() < 0.3:
            read = Use(other + reserve, reserve, returned, largest, emptied_count=turns)
            found = peak(last, read)
            assert found.at_least <= true <= found.at_most
            exact += found.at_least == found.at_most
            last, true = read, other + reserve
    assert exact > 300
