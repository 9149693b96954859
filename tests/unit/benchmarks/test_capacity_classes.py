"""The search for the smallest capacity, in the benchmark of the classes of models."""

import pytest

from tools.bench_run import load


@pytest.fixture
def bench():
    return load("capacity_classes")


@pytest.mark.parametrize("smallest", [1, 2, 3, 37, 128, 129, 5000, 40_000])
def test_the_capacity_found_suffices_and_is_at_most_four_percent_too_large(bench, smallest):
    tried = []

    def completes(mib):
        tried.append(mib)
        return mib >= smallest

    found = bench.least(completes)
    assert found in tried and found >= smallest
    assert found == smallest or found <= 1.04 * smallest
    assert len(tried) == len(set(tried)) < 20


def test_a_search_that_nothing_ends_says_so(bench):
    with pytest.raises(RuntimeError, match="MiB does not suffice"):
        bench.least(lambda mib: False)
