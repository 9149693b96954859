"""What a benchmark reports for a feature that is switched on and off within one run."""

import pytest

from tools.switched import added


def test_a_cost_is_found_on_a_machine_that_grows_slower():
    seconds = [(1 + index / 1000) * (1.1 if index % 2 else 1.0) for index in range(201)]
    found = added([(False, seconds)])
    assert found["added_percent"] == pytest.approx(10, abs=0.01)
    assert found["blocks"] == 199
    low, high = found["interval_95_percent"]
    assert 9.9 <= low <= found["added_percent"] <= high <= 10.1


def test_the_first_block_may_be_with_it_or_without():
    with_first, without_first = [2.0, 1.0] * 5, [1.0, 2.0] * 5
    found = added([(True, with_first), (False, without_first)])
    assert found["added_percent"] == 100
    assert (found["plain_ms"], found["added_ms"]) == (1000, 1000)


def test_a_feature_without_a_cost_shows_none():
    low, high = added([(True, [1.0, 1.1, 0.9, 1.2, 1.0, 0.8] * 30)])["interval_95_percent"]
    assert low <= 0 <= high
