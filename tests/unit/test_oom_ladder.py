"""The ladder: order, limits, what passes through it, and what it lets go of."""

import gc
import weakref

import pytest
import torch
from support.ladders import OOM_TEXT, Failing, Step, ladder

from headroom.guard import ladder as oom_ladder
from headroom.guard.errors import OomGuardError
from headroom.guard.ladder import Ladder, guarded, is_recovering
from headroom.measure.snapshot import Snapshot


def test_a_call_that_does_not_fail_never_sees_the_ladder():
    def never():
        raise AssertionError("asked for a ladder")

    assert guarded(lambda: None, never) is None
    assert guarded(lambda: 5, never) == 5


def test_steps_are_taken_in_order_each_until_it_has_nothing_left():
    log = []
    steps = [Step("a", log), Step("b", log, 2), Step("c", log, 0),
             Step("d", log)]
    call = Failing(4)
    assert guarded(call, ladder(steps)) == "done"
    assert log == [("a", 8), ("b", 7), ("b", 6), ("d", 5)]
    assert call.calls == 5


def test_the_limit_of_attempts_is_kept():
    log = []
    with pytest.raises(OomGuardError):
        guarded(Failing(99), ladder([Step("a", log, 99)], limit=3))
    assert [left for _, left in log] == [3, 2, 1]


def test_memory_is_tidied_after_every_failure_and_every_rung():
    order = []

    def call():
        order.append("call")
        raise torch.OutOfMemoryError(OOM_TEXT)

    class Rung(Step):
        def take(self, shortage, tries_left):
            action = super().take(shortage, tries_left)
            order.append("step") if action else None
            return action

    with pytest.raises(OomGuardError):
        guarded(call, ladder([Rung("a", [], 2)], tidy=lambda: order.append("tidy"),
                             before_retry=lambda: order.append("same call")))
    again = ["tidy", "step", "tidy", "same call", "call"]
    assert order == ["call", *again, *again, "tidy", "tidy"]


def test_the_error_says_what_was_tried():
    with pytest.raises(OomGuardError, match="did a .2 times."):
        guarded(Failing(9), ladder([Step("a", [], 2)]))


def test_the_error_tells_what_was_free_while_the_failed_call_held_its_tensors(monkeypatch):
    held = []

    def call():
        local = torch.zeros(3)
        held.append(weakref.ref(local))
        raise torch.OutOfMemoryError(OOM_TEXT)

    def look():
        gc.collect()
        return Snapshot((), int(bool(held) and held[-1]() is not None), 0)

    monkeypatch.setattr(oom_ladder, "snapshot", look)
    made = Ladder(steps=[Step("a", [])], max_attempts=8, tidy=lambda: None,
                  explain=lambda recovery, now: f"{now.rss_bytes} tensors were held")
    with pytest.raises(OomGuardError, match="1 tensors were held"):
        guarded(call, lambda: made)
    assert look().rss_bytes == 0


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
        guarded(lambda: deep(), ladder([Step("a", [], 5)]))
    assert caught.value is error
    frames = {frame.name: frame for frame in caught.traceback}
    assert "deep" in frames
    assert frames["deep"].frame.f_locals["kept"] is local


def test_another_error_in_a_retry_passes_untouched():
    errors = iter([torch.OutOfMemoryError(OOM_TEXT), ValueError("the second try")])

    def call():
        raise next(errors)

    with pytest.raises(ValueError, match="the second try"):
        guarded(call, ladder([Step("a", [], 5)]))


def test_an_interrupt_between_attempts_ends_the_ladder():
    class Interrupt(Exception):
        """An ordinary Exception, as on the oldest supported host."""

    def check():
        raise Interrupt

    call = Failing(99)
    with pytest.raises(Interrupt):
        guarded(call, ladder([Step("a", [], 5)], check_interrupt=check))
    assert call.calls == 1


def test_no_tensor_of_the_failed_call_is_alive_when_memory_is_tidied():
    alive = []
    watched = []

    def inner(x):
        y = x + 1
        watched.append(weakref.ref(y))
        raise torch.OutOfMemoryError(OOM_TEXT)

    def call():
        if len(watched) >= 3:
            return "done"
        middle = torch.ones(4)
        watched.append(weakref.ref(middle))
        try:
            return inner(middle)
        except RuntimeError as error:
            kept = middle * 2
            watched.append(weakref.ref(kept))
            raise torch.OutOfMemoryError(OOM_TEXT) from error

    def tidy():
        gc.collect()
        alive.append([ref() for ref in watched])

    assert guarded(call, ladder([Step("a", [])], tidy=tidy)) == "done"
    assert alive == [[None, None, None]] * 2


def test_a_guard_inside_a_guard_leaves_the_climbing_to_the_outermost():
    inner_log, outer_log = [], []
    call = Failing(2)

    def inner():
        assert is_recovering()
        return guarded(call, ladder([Step("inner", inner_log, 9)]))

    assert guarded(inner, ladder([Step("outer", outer_log, 9)])) == "done"
    assert inner_log == []
    assert len(outer_log) == 2
    assert not is_recovering()


def test_an_outer_call_leaves_failures_to_the_guards_inside_it():
    inner_log, outer_log = [], []
    call = Failing(2)
    between = Failing(1)

    def run():
        result = guarded(call, ladder([Step("inner", inner_log, 9)]))
        between()
        return result

    assert guarded(run, ladder([Step("outer", outer_log, 9)]), is_outer=True) == "done"
    assert len(inner_log) == 2
    assert len(outer_log) == 1


def test_a_step_that_runs_out_of_memory_gives_way_to_the_next():
    class Broken(Step):
        def take(self, shortage, tries_left):
            raise torch.OutOfMemoryError("while offloading")

    log = []
    assert guarded(Failing(1), ladder([Broken("x", log), Step("b", log)])) == "done"
    assert log == [("b", 8)]


def test_after_a_failure_the_thread_is_ready_for_the_next_call():
    with pytest.raises(OomGuardError):
        guarded(Failing(9), ladder([]))
    assert not is_recovering()
    assert guarded(Failing(1), ladder([Step("a", [])])) == "done"
