"""When the benchmark calls a guarded prompt worse than a stock one."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
GOOD = {"completed": True, "failed_calls": 1, "copied_mib": 100.0, "launches": 1000}


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("guarded_or_stock")


@pytest.mark.parametrize(("changed", "told"), [
    ({}, []),
    ({"failed_calls": 0, "copied_mib": 90.0}, []),
    ({"copied_mib": 100.9}, []),
    ({"completed": False}, ["the second prompt fails with the guard alone"]),
    ({"failed_calls": 2}, ["second prompt, failed_calls: 2 against 1"]),
    ({"launches": 1020}, ["second prompt, launches: 1020 against 1000"]),
])
def test_worse_is_what_fails_or_costs_more_than_stock(bench, changed, told):
    assert bench.worse({"stock": [GOOD, GOOD], "guarded": [GOOD, {**GOOD, **changed}]}) == told


def test_nothing_is_worse_where_stock_fails(bench):
    failed = {**GOOD, "completed": False}
    both = {"stock": [failed, failed], "guarded": [{**GOOD, "failed_calls": 9}, failed]}
    assert bench.worse(both) == [] and not bench.only_guarded(both)
    assert bench.only_guarded({"stock": [failed], "guarded": [GOOD]})
