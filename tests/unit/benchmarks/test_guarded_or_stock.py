"""When the benchmark calls a guarded prompt worse than a stock one."""

import contextlib
import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
GOOD = {"completed": True, "failed_calls": 1, "copied_mib": 100.0, "launches": 1000}


def both(stock, guarded):
    """Three good first prompts each, and these second ones."""
    return {"stock": {"first": [GOOD] * 3, "second": stock},
            "guarded": {"first": [GOOD] * 3, "second": guarded}}


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
    assert bench.worse(both([GOOD], [{**GOOD, **changed}])) == told


def test_bytes_within_the_spread_of_stock_are_not_worse(bench):
    more = {**GOOD, "copied_mib": 150.0}
    assert bench.worse(both([GOOD, GOOD, more], [GOOD, more, more])) == []
    assert bench.worse(both([GOOD, GOOD, GOOD], [GOOD, GOOD, more])) == []
    assert bench.worse(both([GOOD, GOOD, GOOD], [GOOD, more, more])) == [
        "second prompt, copied_mib: 150 against 100"]


def test_one_guarded_prompt_that_fails_is_worse(bench):
    failed = {**GOOD, "completed": False}
    assert bench.worse(both([GOOD] * 3, [GOOD, GOOD, failed])) == [
        "the second prompt fails with the guard alone"]


def test_nothing_is_worse_where_stock_fails(bench):
    failed = {**GOOD, "completed": False}
    found = both([GOOD, failed], [{**GOOD, "failed_calls": 9}, failed])
    assert bench.worse(found) == [] and not bench.only_guarded(found)
    assert bench.only_guarded(both([GOOD, failed], [GOOD, GOOD]))


def test_the_sum_is_of_what_completes_both_ways(bench):
    failed, more = {**GOOD, "completed": False}, {**GOOD, "copied_mib": 120.0}
    several = [both([GOOD], [more]), both([failed], [{**GOOD, "copied_mib": 9000.0}])]
    # Of the second, only the first prompts count: 100 against 100.
    assert bench.of_stock(several, "copied_mib") == round(320 / 300, 3)


@pytest.mark.parametrize(("dearer", "turns"), [(0, 3), (2, 5), (12, 12)])
def test_a_possible_chance_is_measured_again(bench, monkeypatch, tmp_path, dearer, turns):
    """`dearer`: that many of the first guarded prompts copy more than any of stock."""
    class Measured(bench._Both):
        def __init__(self):
            self.args, self.left = SimpleNamespace(repeats=3, most=12), 2 * dearer

        def server(self, mib, folder):
            return contextlib.nullcontext(SimpleNamespace(empty=lambda mib: None))

        def tried(self, dry, name, options):
            if options is None or not self.left:
                return GOOD
            self.left -= 1
            return {**GOOD, "copied_mib": 150.0}

    found = Measured().both(tmp_path, "batch", 1536)
    assert {len(ones) for way in found.values() for ones in way.values()} == {turns}
    assert bool(bench.worse(found)) == (dearer == 12)
