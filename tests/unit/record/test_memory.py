"""A peak between two readings is exact where torch can tell, and bounded where it cannot."""

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


def test_a_reserve_that_gave_nothing_back_peaked_at_its_end():
    assert peak(begun(), Use(used_bytes=608, reserved_bytes=508, peak_bytes=508)) == Peak(608, 608)


def test_a_peak_is_exact_even_when_all_of_it_was_given_back():
    after = Use(used_bytes=160, reserved_bytes=60, peak_bytes=700)
    assert peak(begun(), after) == Peak(800, 800)
    assert reached(begun(), after) == 800


def test_where_nothing_was_taken_the_peak_is_what_was_there():
    after = Use(used_bytes=120, reserved_bytes=20, peak_bytes=60)
    assert peak(begun(), after) == Peak(160, 160)
    assert reached(begun(), after) == 120


def test_a_counter_that_only_was_read_tells_what_is_new_in_it():
    before = Use(used_bytes=160, reserved_bytes=60, peak_bytes=300)
    assert peak(before, Use(160, 60, 300)) == Peak(160, 400)
    assert peak(before, Use(160, 60, 301)) == Peak(401, 401)


def test_an_allocator_that_counts_nothing_leaves_what_was_read():
    assert peak(Use(160), Use(170)) == Peak(170, None)


def test_memory_beside_torch_that_fell_may_have_been_there_at_the_peak():
    pages = Use(used_bytes=5000, reserved_bytes=0, peak_bytes=9000, begins_again=True)
    torch_instead = Use(used_bytes=4000, reserved_bytes=3500, peak_bytes=3500)
    assert peak(pages, torch_instead) == Peak(5000, 8500)


def test_pages_that_yielded_and_came_back_make_no_peak_above_the_card():
    pages = Use(5000, 0, 0, total_bytes=8000, begins_again=True)
    assert peak(pages, Use(5000, 0, 6000, total_bytes=8000)).at_least == 8000


def test_if_other_code_resets_torchs_counters_no_peak_is_exact():
    before = Use(used_bytes=160, reserved_bytes=60, peak_bytes=900)
    assert peak(before, Use(used_bytes=160, reserved_bytes=60, peak_bytes=60)) == Peak(160, None)
    assert peak(before, Use(used_bytes=160, reserved_bytes=60, peak_bytes=500)) == Peak(600, None)


def test_a_device_that_was_not_in_use_before_has_no_upper_bound():
    assert peak(Use(), Use(500, 200, 200)) == Peak(500, None)
    assert peak(Use(), Use()) is None


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
