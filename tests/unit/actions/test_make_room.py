"""Room in RAM: the steps in their order, no more than needed, each with the bytes it gained."""

from types import SimpleNamespace

import pytest

from headroom.actions import make_room as module
from headroom.actions.make_room import SETTING, VARIABLE, make_room, wanted_bytes
from headroom.base.device import MIB


@pytest.fixture
def ram(monkeypatch):
    """RAM that each step frees, {step: MiB}, and the requests to ComfyUI."""
    state = SimpleNamespace(room=0, gains={}, asked=[])

    def step(name):
        def work(wanted=None):
            state.asked.append((name, wanted))
            state.room += state.gains.get(name, 0) * MIB
        return work

    monkeypatch.setattr(module, "ram_room_bytes", lambda: state.room)
    monkeypatch.setattr(module, "trim_heap", step("heap"))
    monkeypatch.setattr(module, "current_host", lambda: SimpleNamespace(
        release_cached_results=step("cache"), release_idle_pins=step("pins")))
    return state


def test_each_step_gets_the_missing_bytes_and_tells_the_bytes_that_it_freed(ram):
    ram.gains = {"cache": 30, "heap": 20}
    steps = list(make_room(100 * MIB))
    assert ram.asked == [("cache", 100 * MIB), ("pins", 70 * MIB), ("heap", None)]
    assert [step.action for step in steps] == ["ram cache", "ram heap"]
    assert str(steps[0].text).endswith("results of other workflows, 30.0 MiB more are left")
    assert str(steps[1].text).endswith("went back to the system, 20.0 MiB more are left")


def test_the_first_step_that_is_enough_is_the_last(ram):
    ram.gains = {"cache": 100, "pins": 100}
    assert [step.action for step in make_room(100 * MIB)] == ["ram cache"]
    assert list(make_room(100 * MIB)) == []
    assert len(ram.asked) == 1


def test_without_comfyui_the_heap_is_left(ram, monkeypatch):
    monkeypatch.setattr(module, "current_host", lambda: None)
    ram.gains = {"heap": 5}
    assert [step.action for step in make_room(100 * MIB)] == ["ram heap"]


@pytest.mark.parametrize("total_gib, wanted_mib", [(16, 327), (24, 491), (128, 1024)])
def test_by_itself_it_keeps_two_percent_and_at_most_one_gib_free(
    monkeypatch, total_gib, wanted_mib
):
    monkeypatch.setattr(module, "ram_total_bytes", lambda: total_gib * 1024 * MIB)
    assert wanted_bytes({}, {}) // MIB == wanted_mib
    assert wanted_bytes({VARIABLE: "many"}, {}) // MIB == wanted_mib
    assert wanted_bytes({}, {SETTING: False}) == 0
    assert wanted_bytes({VARIABLE: "5"}, {SETTING: False}) == 5 * MIB
