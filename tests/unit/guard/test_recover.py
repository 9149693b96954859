"""A recovery: the order of its changes, its limits, errors that pass, what is told of it."""

import gc
import time
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.calls import OOM_TEXT, Changing, Failing, recovered
from support.hosts import MIB, GuardHost
from support.shortages import GPU

from headroom.guard import attempt, weights
from headroom.guard import recover as oom_recover
from headroom.guard.attempt import is_recovering
from headroom.guard.errors import OomGuardError
from headroom.guard.lack import Lack
from headroom.guard.recover import TIDIED
from headroom.measure.snapshot import Snapshot


def test_a_call_that_does_not_fail_is_run_as_it_comes():
    call = Changing(lambda: None, light=1, cuts=1)
    assert recovered(call) is None
    assert call.changes == [(0, None)] and call.log == ["call"]
    assert recovered(lambda: 5) == 5


def test_the_same_call_is_repeated_first_then_changes_that_keep_every_bit_then_smaller_parts():
    call = Changing(Failing(6), light=2, cuts=3)
    assert recovered(call) == "done"
    assert call.changes == [(0, None), (0, None), (1, None), (2, None), (2, 3), (2, 2), (2, 1)]


@pytest.mark.parametrize(("is_certain", "calls"), [(False, 2), (True, 1)])
def test_with_nothing_to_change_a_call_is_repeated_once_if_returned_cache_can_be_enough(
    monkeypatch, is_certain, calls
):
    lack = Lack("device", GPU, MIB, missing_bytes=MIB, is_certain=is_certain)
    monkeypatch.setattr(oom_recover, "lack_of", lambda *_: lack)
    call = Changing(Failing(9))
    with pytest.raises(OomGuardError):
        recovered(call)
    assert len(call.plans) == calls


def test_with_speed_its_own_weights_go_only_when_it_cannot_be_cut_further():
    call = Changing(Failing(4), light=1, cuts=2)
    assert recovered(call, prefer="speed") == "done"
    assert call.changes == [(0, None), (0, None), (0, 2), (0, 1), (1, 1)]


def test_weights_that_may_not_leave_stay():
    call = Changing(Failing(2), light=1, cuts=1)
    assert recovered(call, offload_weights=False) == "done"
    assert call.changes == [(0, None), (0, None), (0, 1)]


def test_the_limit_of_attempts_is_kept():
    call = Changing(Failing(99), cuts=99)
    with pytest.raises(OomGuardError):
        recovered(call, attempts=3)
    assert len(call.plans) == 4


def test_memory_is_tidied_after_every_failure_and_every_change(monkeypatch):
    call = Changing(Failing(99), cuts=1)
    monkeypatch.setattr(oom_recover, "tidy", lambda: call.log.append("tidy"))
    with pytest.raises(OomGuardError):
        recovered(call)
    assert call.log == ["call", "tidy", "same call", "call", "tidy", "tidy", "same call", "call",
                        "tidy", "tidy"]


def test_the_error_tells_what_was_free_while_the_failed_call_held_its_tensors(monkeypatch):
    held = []

    def call():
        local = torch.zeros(3)
        held.append(weakref.ref(local))
        raise torch.OutOfMemoryError(OOM_TEXT)

    def look():
        gc.collect()
        return Snapshot((), int(bool(held) and held[-1]() is not None), 0)

    monkeypatch.setattr(attempt, "snapshot", look)
    monkeypatch.setattr(oom_recover, "explain", lambda call, options, failures, attempts, now, lack:
                        f"{now.rss_bytes} tensors were held")
    with pytest.raises(OomGuardError, match="1 tensors were held"):
        recovered(call)
    assert look().rss_bytes == 0


def able(exact, cut, missing, changed=False, prefer="same bits"):
    """The changes made if `missing` MiB lack; others' and own weights can free these amounts."""
    made = []

    class Call(Changing):
        def lighter(self, plan, lack):
            return (replace(plan, room_bytes=1), exact[1] * MIB) if exact[1] else None

        def smaller(self, plan, lack):
            made.append(("smaller with", lack.missing_bytes // MIB if cut else None))
            return replace(plan, parts=1) if cut else None

    own = oom_recover._Recovering(
        Call(None), oom_recover.GuardOptions(prefer=prefer), oom_recover.Plan(),
        SimpleNamespace(is_incomplete=False))
    own.is_changed = changed
    own.alone = lambda plan, lack: (
        (replace(plan, alone=True), exact[0] * MIB) if exact[0] else None)
    own.made = lambda plan, lack: [name for name, is_new in (
        ("others", plan.alone), ("own", plan.room_bytes), ("cut", plan.parts)) if is_new]
    return own.change(Lack("device", GPU, 1, missing * MIB, 1000 * MIB, 500 * MIB))


@pytest.mark.parametrize(("exact", "cut", "missing", "changed", "chosen"), [
    ((300, 300), True, 100, False, ["others"]),
    ((30, 300), True, 100, False, ["others", "own"]),
    ((0, 300), True, 100, False, ["own"]),
    ((30, 30), True, 100, False, ["cut"]),  # no change that cannot be enough
    ((30, 30), False, 100, False, ["others", "own"]),  # but both if none can be enough
    ((300, 300), True, 100, True, ["others", "own"]),  # after a first change: both
    ((30, 30), True, 100, True, ["others", "own", "cut"]),
    ((0, 0), True, 100, False, ["cut"]),
    ((0, 0), False, 100, False, []),
])
def test_the_first_change_is_taken_that_can_be_enough(exact, cut, missing, changed, chosen):
    assert able(exact, cut, missing, changed) == chosen


@pytest.mark.parametrize(("cut", "chosen"), [(True, ["cut"]), (False, ["own"])])
def test_speed_prefers_smaller_parts_to_its_own_weights(cut, chosen):
    assert able((0, 300), cut, 100, prefer="speed") == chosen


@pytest.mark.parametrize("error", [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("no"), KeyError("k"),
    KeyboardInterrupt(), SystemExit(2), OSError(28, "No space left on device"),
    OomGuardError("an inner guard gave up"),
], ids=lambda error: type(error).__name__)
def test_any_other_error_passes_untouched_with_its_traceback(error):
    local = torch.zeros(3)

    def deep():
        kept = local
        raise error if kept is local else AssertionError

    with pytest.raises(type(error)) as caught:
        recovered(lambda: deep(), cuts=5)
    assert caught.value is error
    frames = {frame.name: frame for frame in caught.traceback}
    assert "deep" in frames
    assert frames["deep"].frame.f_locals["kept"] is local


def test_an_interrupt_between_attempts_ends_the_recovery(monkeypatch):
    class Interrupt(Exception):
        """An ordinary Exception, as on the oldest supported host."""

    def check():
        raise Interrupt

    monkeypatch.setattr(oom_recover, "guard_host", lambda: GuardHost(check_interrupt=check))
    call = Failing(99)
    with pytest.raises(Interrupt):
        recovered(call, cuts=5)
    assert call.calls == 1


def test_of_two_nested_guards_the_outer_one_handles_the_failure():
    inner, outer = Changing(Failing(2), cuts=9), None

    def run():
        assert is_recovering()
        return recovered(inner)

    outer = Changing(run, cuts=9)
    assert recovered(outer) == "done"
    assert inner.changes == [(0, None)] * 3
    assert len(outer.plans) == 3
    assert not is_recovering()


def test_an_outer_call_leaves_failures_to_the_guards_inside_it():
    inner, between = Changing(Failing(2), cuts=9), Failing(1)

    def run():
        result = recovered(inner)
        between()
        return result

    outer = Changing(run, cuts=9)
    assert recovered(outer, is_outer=True) == "done"
    assert len(inner.plans) == 3 + 1
    assert len(outer.plans) == 2


def test_a_change_that_runs_out_of_memory_does_not_end_the_recovery(monkeypatch):
    def broken(in_use, wanted):
        raise torch.OutOfMemoryError("while offloading")

    monkeypatch.setattr(weights, "make_room", broken)
    call = Changing(Failing(3), light=1, cuts=1)
    assert recovered(call) == "done"
    assert call.changes[-1] == (1, 1)


def test_after_a_failure_the_thread_is_ready_for_the_next_call():
    with pytest.raises(OomGuardError):
        recovered(Failing(9))
    assert not is_recovering()
    assert recovered(Failing(1)) == "done"


# ---------------------------------------------------------------- what is told of it


def test_every_attempt_is_noted_with_what_it_did_and_whether_it_helped(entries):
    recovered(Failing(2), cuts=1)
    assert [(e.attempt, e.action, e.recovered) for e in entries] == [
        (1, TIDIED, None), (1, TIDIED, False), (2, "cut to 1", None), (2, "cut to 1", True),
    ]
    assert all("Tried to allocate 64.00 MiB" in e.error for e in entries)


def test_an_attempt_is_told_before_the_call_is_tried_again(entries):
    seen = []

    def call():
        seen.append([entry.recovered for entry in entries])
        if len(seen) == 1:
            raise torch.OutOfMemoryError(OOM_TEXT)

    before = time.perf_counter()
    recovered(call)
    assert seen == [[], [None]]
    assert [entry.recovered for entry in entries] == [None, True]
    assert before <= entries[0].at == entries[1].at <= time.perf_counter()


def test_an_attempt_that_ends_in_another_error_did_not_help(entries):
    errors = iter([torch.OutOfMemoryError(OOM_TEXT), ValueError("the second try")])

    def call():
        raise next(errors)

    with pytest.raises(ValueError, match="the second try"):
        recovered(call)
    assert [entry.recovered for entry in entries] == [None, False]


def test_the_final_error_is_written_into_the_journal(entries):
    with pytest.raises(OomGuardError) as caught:
        recovered(Failing(9))
    assert entries[-1].text == str(caught.value)
