"""What a host catches, logs and leaves out when memory runs out counts as a failed call."""

import logging
from types import SimpleNamespace

import pytest
import torch
from support.calls import OOM_TEXT, Changing, recovered
from support.hosts import GuardHost

from headroom.guard import left_out
from headroom.guard import recover as oom_recover
from headroom.guard.errors import OomGuardError
from headroom.guard.left_out import listen, watching
from headroom.measure import journal

OOM = torch.OutOfMemoryError(OOM_TEXT)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """A host whose function `leaves_out` catches and logs, as ComfyUI's LoRA adapters do."""
    adapter = GuardHost(says_left_out=lambda record: record.funcName == "leaves_out")
    monkeypatch.setattr(left_out, "guard_host", lambda: adapter)
    monkeypatch.setattr(left_out._listener, "_noted", None)


def leaves_out(error):
    try:
        raise error
    except (RuntimeError, ValueError) as caught:
        logging.error("ERROR lora key %s", caught)


class Call:
    """Leaves something out in its first `times` calls."""

    def __init__(self, times, error=OOM):
        self.left, self.error, self.log = times, error, []

    def __call__(self):
        self.log.append("call")
        if self.left > 0:
            self.left -= 1
            leaves_out(self.error)
        return "done"


@pytest.fixture
def repairs(monkeypatch):
    """What is done to let a model be loaded anew with all of its LoRAs; the call's log gets it."""
    found = SimpleNamespace(log=None, fails=0)

    def unload(models):
        found.log.append("repair")
        if found.fails > 0:
            found.fails -= 1
            raise OOM

    monkeypatch.setattr(oom_recover, "unload_models", unload)
    return found


def guarded(do, repairs, log, attempts=3):
    repairs.log = log
    return recovered(Changing(do, cuts=9, log=[]), attempts=attempts)


def test_a_call_that_left_something_out_is_repaired_and_repeated(entries, repairs):
    call = Call(1)
    assert guarded(call, repairs, call.log) == "done"
    assert call.log == ["call", "repair", "call"]
    assert [(entry.attempt, entry.recovered) for entry in entries] == [(1, None), (1, True)]
    attempt = entries[-1]
    assert "Tried to allocate 64.00 MiB" in attempt.error


def test_a_call_that_leaves_something_out_again_and_again_ends_in_an_error(repairs):
    call = Call(99)
    with pytest.raises(OomGuardError, match="still left out a part") as caught:
        guarded(call, repairs, call.log)
    assert str(caught.value.__cause__).startswith("LeftOut: ERROR lora key")
    assert call.log.count("call") == 4


def test_a_call_that_left_something_out_and_then_ran_out_itself_is_repaired_too(repairs):
    call = Call(1)

    def run():
        call()
        if len(call.log) == 1:
            raise OOM
        return "done"

    assert guarded(run, repairs, call.log) == "done"
    assert call.log == ["call", "repair", "call"]


def test_a_repair_that_runs_out_of_memory_itself_is_made_again(repairs):
    call, repairs.fails = Call(1), 1
    assert guarded(call, repairs, call.log) == "done"
    assert call.log == ["call", "repair", "repair", "call"]


@pytest.mark.parametrize("error", [ValueError("wrong shape"), RuntimeError("a size mismatch")])
def test_a_part_left_out_for_another_reason_is_not_repaired(error, entries, repairs):
    call = Call(1, error)
    assert guarded(call, repairs, call.log) == "done"
    leaves_out(error)
    assert call.log == ["call"] and entries == []


def test_errors_that_other_code_logs_and_recovers_from_are_left_to_it(repairs):
    def recovers():
        try:
            raise OOM
        except torch.OutOfMemoryError:
            logging.error("slower but right")
        return "done"

    assert guarded(recovers, repairs, []) == "done"


def test_without_a_guard_it_is_noted_once_for_a_node(entries, monkeypatch, caplog):
    listen()
    node = ["1"]
    monkeypatch.setattr(left_out, "executing_node", lambda: ("prompt", node[0]))
    for number in ("1", "1", "2"):
        node[0] = number
        leaves_out(OOM)
    assert [(e.attempt, e.recovered, e.action) for e in entries] == [
        (0, False, journal.LEFT_OUT)] * 2
    assert "so the result is wrong" in caplog.text


def test_only_the_inner_of_two_watches_gets_the_error():
    with watching() as outer:
        with watching() as inner:
            leaves_out(OOM)
        assert len(inner) == 1 and outer == []
        leaves_out(OOM)
    assert len(outer) == 1
