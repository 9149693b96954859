"""Models are unloaded after some minutes without a prompt: when, by whose setting, and how."""

import asyncio

import pytest

from headroom.api import idle as idle_module
from headroom.api.gate import Gate
from headroom.api.idle import SETTING, VARIABLE, Idle


class Loop:
    """An event loop whose one timer ends when enough time has passed."""

    def __init__(self):
        self.left = self.is_due = None
        self.has_ended = False

    def is_closed(self):
        return self.has_ended

    def call_soon_threadsafe(self, call):
        call()

    def call_later(self, seconds, call):
        assert self.left is None, "the timer before goes on"
        self.left, self.is_due = seconds, call
        return self

    def cancel(self):
        self.left = None

    def create_task(self, work):
        asyncio.run(work)

    def passes(self, seconds):
        if self.left is not None:
            self.left -= seconds
            if self.left <= 0:
                self.left = None
                self.is_due()


@pytest.fixture
def loop():
    return Loop()


def idle_after(loop, minutes=None, browser=None, gate=None):
    given = {} if minutes is None else {VARIABLE: minutes}
    idle = Idle(gate or Gate(lambda: False, lambda: True), loop, given)
    idle.prompt_is_posted({} if browser is None else {SETTING: browser})
    return idle


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


def test_unloading_is_due_the_set_minutes_after_the_last_event(loop, loaded):
    idle = idle_after(loop, "10")
    loop.passes(599)
    idle.something_happens()
    loop.passes(599)
    assert loaded["purged"] == 0
    loop.passes(1)
    assert loaded["purged"] == 1


def test_it_is_off_by_default_and_before_the_first_prompt(loop):
    idle_after(loop)
    assert loop.left is None
    Idle(None, loop, {VARIABLE: "5"})
    assert loop.left is None


@pytest.mark.parametrize(("server", "browser", "minutes"), [
    (None, 5, 5), (None, 0.5, 0.5), ("3", 5, 3), ("0", 5, 0), (None, None, 0), ("", 7, 7),
    (None, -1, 0), (None, True, 0), (None, "5", 0), (None, float("nan"), 0), (None, [5], 0),
    (None, 1e9, 0), ("soon", 4, 4),
])
def test_the_server_decides_before_the_browser_and_nonsense_counts_as_never(
    loop, server, browser, minutes
):
    assert idle_after(loop, server, browser).minutes == minutes
    assert loop.left == (60 * minutes or None)


def test_models_leave_once_and_one_line_of_the_log_says_so(loop, loaded, caplog):
    caplog.set_level("INFO")
    idle = idle_after(loop, "10")
    loop.passes(600)
    assert loaded["purged"] == 1 and loop.left is None
    assert [record.getMessage() for record in caplog.records] == [
        "[Headroom] no prompt for 10 minutes: 512.0 MiB of VRAM freed"
    ]
    idle.something_happens()
    assert loop.left == 600


@pytest.mark.parametrize("gate", [
    Gate(lambda: True, lambda: True), Gate(lambda: False, lambda: False),
])
def test_no_model_is_unloaded_while_a_prompt_runs_and_the_time_starts_again(loop, loaded, gate):
    idle_after(loop, "10", gate=gate)
    loop.passes(700)
    assert loaded["purged"] == 0 and loop.left == 600


def test_without_a_loaded_model_nothing_is_done_or_said(loop, loaded, caplog):
    caplog.set_level("INFO")
    loaded["models"] = []
    idle_after(loop, "10")
    loop.passes(600)
    assert loaded["purged"] == 0 and not caplog.records and loop.left is None


def test_models_that_cannot_be_unloaded_are_one_entry_in_the_log(loop, loaded, caplog, monkeypatch):
    monkeypatch.setattr(idle_module, "purge", lambda _: 1 / 0)
    idle_after(loop, "10")
    loop.passes(600)
    [record] = caplog.records
    assert "models could not be unloaded after the idle time" in record.getMessage()


def test_a_prompt_that_outlives_the_server_starts_no_timer(loop):
    idle = idle_after(loop)
    loop.has_ended = True
    loop.call_soon_threadsafe = None
    idle.something_happens()
    assert loop.left is None
