"""The recorder beside the executor: our nodes' notes, its own thread, and clocks that jump."""

import threading
import time

import pytest
from support.recorder import Graph, Probe, play

from headroom.host.types import Outcome
from headroom.measure import journal
from headroom.record import recorder as record_recorder
from headroom.record.recorder import Recorder
from headroom.record.run import Run
from tools.waiting import wait_until


@pytest.fixture
def listening(outcomes, monkeypatch):
    told = []
    recorder = Recorder(Probe(), outcomes.get, announce=told.append)
    journal.listen(recorder._note)
    monkeypatch.setattr(journal, "executing_node", lambda: ("p", "1"))
    return recorder, told


def test_actions_and_attempts_of_the_running_prompt_are_recorded(listening):
    recorder, told = listening
    recorder.prompt_begins("p", Graph("1"), [])
    recorder.node_starts("1", None, "p")
    journal.note_action("purge", 10.0, "10.0 MiB of VRAM freed")
    journal.note_oom(1, "collected garbage", 0.0, "Allocation failed", False)
    journal.note_oom(2, "unloaded every other model", 9.0, "Allocation failed", True)
    run = recorder.run("p")
    assert [entry["text"] for entry in run["actions"]] == ["10.0 MiB of VRAM freed"]
    assert [entry["recovered"] for entry in run["oom"]] == [False, True]
    assert run["oom"][0]["class_type"] == "Kind1"
    assert [(entry["attempt"], entry["title"]) for entry in told] == [(2, "Title 1")]


def test_a_result_that_is_wrong_without_an_error_is_announced_too(listening):
    recorder, told = listening
    recorder.prompt_begins("p", Graph("1"), [])
    journal.note_left_out("Allocation failed")
    assert [(entry["attempt"], entry["recovered"]) for entry in told] == [(0, False)]


def test_an_out_of_memory_error_is_told_at_once_and_its_outcome_later(listening):
    recorder, told = listening
    recorder.prompt_begins("p", Graph("1"), [])
    recorder.node_starts("1", None, "p")
    failed_at = time.perf_counter()
    noted = journal.note_oom(1, "unloaded 1 other model", 9.0, "no memory", at=failed_at)
    assert [event["recovered"] for event in told] == [None]
    (entry,) = recorder.run("p")["oom"]
    assert entry["recovered"] is None
    journal.note_action("purge", 10.0, "later")
    journal.note_outcome(noted, True)
    assert [event["recovered"] for event in told] == [None, True]
    (after,) = recorder.run("p")["oom"]
    assert after == {**entry, "recovered": True}
    began = recorder._run.began.at
    assert after["at_seconds"] == pytest.approx(failed_at - began, abs=1e-5)
    assert told[1]["at_seconds"] == after["at_seconds"]


def test_an_attempt_that_did_not_help_is_recorded_and_not_announced(listening):
    recorder, told = listening
    recorder.prompt_begins("p", Graph("1"), [])
    journal.note_outcome(journal.note_oom(1, "returned memory", 0.0, "no memory"), False)
    assert [entry["recovered"] for entry in recorder.run("p")["oom"]] == [False]
    assert [event["recovered"] for event in told] == [None]


def test_the_final_error_of_the_guard_is_in_the_record_and_advises_no_guard(listening, outcomes):
    recorder, _ = listening
    recorder.prompt_begins("p", Graph("1"), [])
    assert recorder.run("p")["gave_up"] == []
    before = time.perf_counter() - recorder._run.began.at
    journal.note(journal.GaveUp(*journal.executing_node(), "OOM Guard could not finish a step"))
    after = time.perf_counter() - recorder._run.began.at
    (entry,) = recorder.run("p")["gave_up"]
    assert (entry["node_id"], entry["text"]) == ("1", "OOM Guard could not finish a step")
    assert before <= entry["at_seconds"] + 1e-5 and entry["at_seconds"] <= after + 1e-5
    outcomes["p"] = outcomes["q"] = Outcome("error", "1", (), ("OutOfMemoryError", "no memory"))
    recorder.prompt_begins("q", Graph("1"), [])
    for prompt, is_advised in (("p", False), ("q", True)):
        do = [one["text"] for one in recorder.run(prompt)["error"]["means"]["do"]]
        assert do and any("OOM Guard" in one for one in do) == is_advised


def test_events_outside_the_running_prompt_are_not_in_its_record(listening, monkeypatch):
    recorder, told = listening
    recorder.prompt_begins("p", Graph("1"), [])
    monkeypatch.setattr(journal, "executing_node", lambda: (None, None))
    journal.note_action("purge", 10.0, "10.0 MiB of VRAM freed")
    assert recorder.run("p")["actions"] == [] and told == []


def test_endless_notes_stay_bounded(listening):
    recorder, _ = listening
    recorder.prompt_begins("p", Graph("1"), [])
    for index in range(2000):
        journal.note_action("purge", float(index), "text")
    actions = recorder.run("p")["actions"]
    assert len(actions) == 500 and actions[-1]["freed_mib"] == 1999


def test_the_thread_reads_memory_while_a_prompt_runs_and_sleeps_without_one(probe, outcomes):
    recorder = Recorder(probe, outcomes.get)
    recorder.start()
    wait_until(lambda: not recorder._ticker._awake.is_set())
    assert probe.readings == 0
    recorder.prompt_resets()
    recorder.prompt_begins("p", Graph("1"), [])
    wait_until(lambda: probe.readings > 10)
    outcomes["p"] = Outcome("success")
    recorder.prompt_leaves()
    wait_until(lambda: not recorder._ticker._awake.is_set())
    assert recorder.run("p")["status"] == "success"


class SlowProbe(Probe):
    """Holds a reading back until the test lets it go on."""

    def __init__(self):
        super().__init__()
        self.has_read, self.may_go_on = threading.Event(), threading.Event()

    def beside_node(self):
        reading = super().measured()
        self.has_read.set()
        assert self.may_go_on.wait(30)
        return reading

    def at_node(self, begins=False):
        reading = super().measured()
        return reading.at, reading


def test_a_reading_amid_a_node_is_entered_before_the_one_at_its_end(outcomes, monkeypatch):
    """The later reading resets torch's peaks: in the other order the node's peak would be lost."""
    times, probe = [], SlowProbe()
    monkeypatch.setattr(Run, "observe", lambda run, reading: times.append(reading.at))
    recorder = Recorder(probe, outcomes.get)
    probe.may_go_on.set()
    play(recorder, "p", end=False)
    recorder.node_starts("1", None, "p")
    probe.has_read.clear()
    probe.may_go_on.clear()
    finish = threading.Thread(target=recorder.node_finishes, args=("1", None, "p"))
    tick = threading.Thread(target=recorder._sample)
    tick.start()
    assert probe.has_read.wait(30)
    finish.start()
    finish.join(0.2)  # it waits
    probe.may_go_on.set()
    tick.join()
    finish.join()
    recorder.catch_up()
    assert len(times) == 3 and times == sorted(times)


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_wall_clock_that_jumps_changes_no_duration_and_no_order(outcomes, monkeypatch, jump):
    recorder, wall = Recorder(Probe(), outcomes.get), time.time
    play(recorder, "p", "1", end=False)
    began = time.perf_counter()
    monkeypatch.setattr(record_recorder.time, "time", lambda: wall() + jump)
    recorder.node_starts("2", None, "p")
    recorder.node_finishes("2", None, "p")
    recorder.prompt_leaves()
    outcomes["p"] = Outcome("success")
    play(recorder, "q", "1")
    outcomes["q"] = Outcome("success")
    run = recorder.run("p")
    assert abs(run["started_at"] - wall()) < 60
    assert 0 <= run["seconds"] < time.perf_counter() - began + 60
    ends = [end for node in run["nodes"] for _, end in node["spans"]]
    assert ends == sorted(ends) and ends[-1] <= run["seconds"]
    assert [found["prompt_id"] for found in recorder.runs()] == ["q", "p"]


class JumpingClock:
    """A clock that the system promises to run forward only, and does not."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        self.now += 0.001
        return self.now


@pytest.mark.parametrize("jump", [-500.0, 500.0])
def test_even_a_monotonic_clock_that_jumps_leaves_a_record(outcomes, monkeypatch, jump):
    clock = JumpingClock()
    monkeypatch.setattr(time, "perf_counter", clock)
    recorder = Recorder(Probe(), outcomes.get)
    recorder.prompt_resets()
    recorder.prompt_begins("p", Graph("1", "2"), [])
    recorder.node_starts("1", None, "p")
    clock.now += jump
    recorder._sample()
    recorder.node_finishes("1", None, "p")
    recorder.node_starts("2", None, "p")
    recorder.node_finishes("2", None, "p")
    recorder.prompt_leaves()
    outcomes["p"] = Outcome("success")
    run = recorder.run("p")
    assert run["status"] == "success" and run["seconds"] >= 0
    assert [node["status"] for node in run["nodes"]] == ["done", "done"]
    assert all(node["seconds"] >= 0 for node in run["nodes"])
    assert all(start <= end for node in run["nodes"] for start, end in node["spans"])
    clock.now -= jump
    play(recorder, "q", "1")
    outcomes["q"] = Outcome("success")
    assert recorder.run("q")["status"] == "success"
