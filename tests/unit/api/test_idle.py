"""Models are unloaded after some minutes without a prompt: when, by whose setting, and how."""

import asyncio

import pytest

from headroom.api import idle as idle_module
from headroom.api.gate import Gate
from headroom.api.idle import SETTING, VARIABLE, Idle


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def idle_after(clock, minutes=None, browser=None, gate=None):
    given = {} if minutes is None else {VARIABLE: minutes}
    idle = Idle(gate or Gate(lambda: False, lambda: True), None, given, clock)
    idle.prompt_is_posted({} if browser is None else {SETTING: browser})
    return idle


def test_unloading_is_due_the_set_minutes_after_the_last_event(clock):
    idle = idle_after(clock, "10")
    assert idle.seconds_left() == 600
    clock.now += 599
    assert idle.seconds_left() == 1
    idle.something_happens()
    assert idle.seconds_left() == 600
    clock.now += 601
    assert idle.seconds_left() == 0


def test_it_is_off_by_default_and_before_the_first_prompt(clock):
    assert idle_after(clock).seconds_left() is None
    assert Idle(None, None, {VARIABLE: "5"}, clock).seconds_left() is None


@pytest.mark.parametrize(("server", "browser", "minutes"), [
    (None, 5, 5), (None, 0.5, 0.5), ("3", 5, 3), ("0", 5, 0), (None, None, 0), ("", 7, 7),
    (None, -1, 0), (None, True, 0), (None, "5", 0), (None, float("nan"), 0), (None, [5], 0),
    (None, 1e9, 0), ("soon", 4, 4),
])
def test_the_server_decides_before_the_browser_and_nonsense_counts_as_never(
    clock, server, browser, minutes
):
    assert idle_after(clock, server, browser).minutes == minutes


class Report:
    headline = "512.0 MiB of VRAM freed"


@pytest.fixture
def loaded(monkeypatch):
    """The models that are loaded, and how often they were unloaded."""
    state = {"models": ["one"], "purged": 0}

    def purge(unload):
        assert unload == "all models"
        state["purged"] += 1
        return Report()

    monkeypatch.setattr(idle_module, "loaded_models", lambda: state["models"])
    monkeypatch.setattr(idle_module, "purge", purge)
    return state


def test_models_leave_once_and_one_line_of_the_log_says_so(clock, loaded, caplog):
    caplog.set_level("INFO")
    idle = idle_after(clock, "10")
    asyncio.run(idle.release())
    assert loaded["purged"] == 1 and idle.seconds_left() is None
    assert [record.getMessage() for record in caplog.records] == [
        "[Headroom] no prompt for 10 minutes: 512.0 MiB of VRAM freed"
    ]
    idle.something_happens()
    assert idle.seconds_left() == 600


@pytest.mark.parametrize("gate", [
    Gate(lambda: True, lambda: True), Gate(lambda: False, lambda: False),
])
def test_no_model_is_unloaded_while_a_prompt_runs_and_the_time_starts_again(clock, loaded, gate):
    idle = idle_after(clock, "10", gate=gate)
    clock.now += 700
    asyncio.run(idle.release())
    assert loaded["purged"] == 0 and idle.seconds_left() == 600


def test_without_a_loaded_model_nothing_is_done_or_said(clock, loaded, caplog):
    caplog.set_level("INFO")
    loaded["models"] = []
    idle = idle_after(clock, "10")
    asyncio.run(idle.release())
    assert loaded["purged"] == 0 and not caplog.records and idle.seconds_left() is None
