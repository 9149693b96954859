"""The benchmark of advice: what counts as worse, and which predictions held."""

import pytest

from tools.bench_run import load

PART = {
    "stock": {"peak_reserved_mib": 500.0, "left_reserved_mib": 500.0},
    "advised": {"peak_reserved_mib": 300.0, "left_reserved_mib": 0.0},
    "predicted_peak_mib": [290.0, 310.0], "first_peak_mib": 300.0,
    "pictures": {"same": True},
}
BY_HAND = {"by_hand": {**PART["advised"], "peak_reserved_mib": 290.0}}


@pytest.fixture
def bench():
    return load("advice")


def found(**changes):
    part = {**PART, **changes}
    return {"workflows": {"start_here": {**part, **BY_HAND}},
            "templates": {name: part for name in load("advice").TEMPLATES}}


def test_good_results_are_no_problem(bench):
    assert bench.problems(found()) == []
    said = bench.summary(found())
    assert (said["predictions"], said["held"], said["largest_error_mib"]) == (7, 7, 0.0)
    assert len(said["templates_with_less"]) == 6


def test_a_prediction_that_did_not_hold_is_counted_with_its_error(bench):
    results = found()
    results["workflows"]["start_here"]["first_peak_mib"] = 340.0
    said = bench.summary(results)
    assert (said["predictions"], said["held"], said["largest_error_mib"]) == (7, 6, 30.0)


@pytest.mark.parametrize("figure, value, words", [
    ("peak_reserved_mib", 330.0, "than by hand"), ("peak_reserved_mib", 510.0, "than before"),
    ("left_reserved_mib", 20.0, "than by hand"),
])
def test_a_figure_above_its_limit_is_a_problem(bench, figure, value, words):
    worse = bench.problems(found(advised={**PART["advised"], figure: value}))
    assert any(words in one for one in worse)


def test_a_changed_picture_and_too_few_that_need_less_are_problems(bench):
    assert any("picture changed" in one for one in bench.problems(found(pictures={"same": False})))
    assert "fewer than four templates need less" in bench.problems(found(advised=PART["stock"]))
