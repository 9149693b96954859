"""A peak between two readings is exact where torch can tell, and bounded where it cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.record.memory import Peak, Reading, Use, between, larger, now, perhaps, reached


def peak(before, after):
    (found,) = between(Reading(0, 0, (before,)), Reading(1, 0, (after,)))
    return found


def begun(used_bytes=160, reserved_bytes=60):
    """A reading at which torch's counter began again."""
    return Use(used_bytes, reserved_bytes, 900, begins_again=True)


@pytest.mark.parametrize(("before", "after", "expected"), [
    pytest.param(begun(), Use(608, 508, 508), Peak(608, 608), id="it stayed reserved"),
    pytest.param(begun(), Use(160, 60, 700), Peak(800, 800), id="all of it was given back"),
    pytest.param(begun(), Use(120, 20, 60), Peak(160, 160), id="nothing was taken"),
    pytest.param(Use(160, 60, 300), Use(160, 60, 300), Peak(160, 400), id="a counter only read"),
    pytest.param(Use(160, 60, 300), Use(160, 60, 301), Peak(401, 401), id="what is new in it"),
    pytest.param(Use(160), Use(170), Peak(170, None), id="an allocator that counts nothing"),
    # Memory beside torch that fell may have been there at the peak; pages that yielded for torch
    # and came back were not: the card has no more.
    pytest.param(begun(5000, 0), Use(4000, 3500, 3500), Peak(5000, 8500), id="pages that left"),
    pytest.param(begun(5000, 0), Use(5000, 0, 6000, 8000), Peak(8000, 11000), id="and came back"),
    pytest.param(Use(160, 60, 900), Use(160, 60, 60), Peak(160, None), id="reset by other code"),
    pytest.param(Use(160, 60, 900), Use(160, 60, 500), Peak(600, None), id="reset and risen"),
    pytest.param(Use(), Use(500, 200, 200), Peak(500, None), id="a device not in use before"),
    pytest.param(Use(), Use(), None, id="a device not in use"),
])
def test_a_peak_is_exact_where_torch_can_tell_and_bounded_where_it_cannot(before, after, expected):
    assert peak(before, after) == expected


@pytest.mark.parametrize(("after", "expected"), [
    (Use(160, 60, 700), 800), (Use(120, 20, 60), 120)])
def test_only_a_peak_after_the_reading_counts_as_reached(after, expected):
    assert reached(begun(), after) == expected


def test_two_spans_together_are_as_exact_as_the_less_exact_one():
    assert larger((Peak(5, 5),), (Peak(3, 9),)) == (Peak(5, 9),)
    assert larger((Peak(5, None),), (Peak(3, 9),)) == (Peak(5, None),)
    assert larger((None,), (Peak(3, 9),)) == (Peak(3, 9),)
    assert now(Reading(0, 0, (Use(7), Use()))) == (Peak(7, 7), None)


def test_a_peak_that_may_belong_to_a_span_raises_its_upper_bound():
    assert perhaps((Peak(5, 5),), (Peak(9, 12),)) == (Peak(5, 12),)
    assert perhaps((Peak(5, 5),), (Peak(9, None),)) == (Peak(5, None),)
    assert perhaps((Peak(5, 5),), (None,)) == (Peak(5, 5),)
    assert perhaps((None,), (Peak(9, 12),)) == (None,) and perhaps((), (Peak(9, 12),)) == ()


# What an allocator does: take more, give back a share of all; or somebody reads, and torch's
# counter begins again or not.
steps = st.one_of(st.tuples(st.just("take"), st.integers(0, 50)),
                  st.tuples(st.just("give"), st.floats(0, 1)),
                  st.tuples(st.just("read"), st.booleans()))


@steady
@given(st.lists(steps, max_size=60))
def test_the_true_peak_is_never_outside_of_the_bounds(done):
    """The simulated allocator knows the true peak at every step."""
    other, reserve, largest = 100, 0, 0
    last, true = Use(100, 0, 0), 100
    for what, amount in done:
        if what == "take":
            reserve += amount
        elif what == "give":
            reserve -= int(reserve * amount)
        largest, true = max(largest, reserve), max(true, other + reserve)
        if what == "read":
            read = Use(other + reserve, reserve, largest, begins_again=amount)
            found = peak(last, read)
            assert found.at_least <= true <= found.at_most
            assert found.at_least == found.at_most or not last.begins_again
            last, true = read, other + reserve
            largest = reserve if read.begins_again else largest
