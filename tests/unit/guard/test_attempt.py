"""A failed attempt is kept as text, which holds no tensor, however its code was written."""

import gc
import sys
import traceback
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.calls import OOM_TEXT, recovered
from support.hosts import GuardHost

from headroom.guard import attempt
from headroom.guard import recover as oom_recover
from headroom.guard.attempt import Failure
from headroom.guard.errors import OomGuardError


def out_of_memory():
    return torch.OutOfMemoryError(OOM_TEXT)


class Watch:
    """Makes the tensors of a failing call and tells which of them live."""

    def __init__(self):
        self.made = []

    def tensor(self):
        made = torch.zeros(8)
        self.made.append(weakref.ref(made))
        return made

    @property
    def alive(self):
        gc.collect()
        return sum(ref() is not None for ref in self.made)


def captured(watch):
    """A nested function has the tensor in a cell and nobody has it as a local variable."""
    tensor = watch.tensor()

    def inner():
        if tensor is not None:
            raise out_of_memory()

    inner()


def another_error(watch):
    tensor = watch.tensor()
    (lambda: tensor.fail)()


def chained_by_cause(watch):
    try:
        another_error(watch)
    except AttributeError as error:
        raise out_of_memory() from error


def chained_by_context(watch):
    try:
        another_error(watch)
    except AttributeError:
        captured(watch)


def begins_in_the_middle(watch):
    """Only `f_back` leads from this traceback to the frame that has the tensor."""
    def outer():
        tensor = watch.tensor()
        assert tensor is not None
        middle()

    def middle():
        raise out_of_memory()

    try:
        outer()
    except RuntimeError as error:
        trace = error.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        found = error.with_traceback(trace)
    raise found


def held_by_a_generator(watch):
    """A suspended generator is in the middle of handling the error that then goes on."""
    def handling():
        try:
            captured(watch)
        except RuntimeError as error:
            yield error

    suspended = handling()
    watch.suspended = suspended
    raise next(suspended)


def through_a_generator(watch):
    def steps():
        tensor = watch.tensor()
        yield (lambda: tensor)
        captured(watch)

    list(steps())


def kept_elsewhere(watch):
    """Somebody keeps the error and its frames for later, as a record of `logging` does."""
    tensor = watch.tensor()
    try:
        assert tensor is not None
        raise out_of_memory()
    except RuntimeError:
        watch.kept = sys.exc_info()
        raise


def in_a_group(watch):
    if sys.version_info < (3, 11):
        pytest.skip("exception groups came with Python 3.11")
    try:
        captured(watch)
    except RuntimeError as error:
        raise out_of_memory() from ExceptionGroup("several", [error])  # noqa: F821


CALLS = [captured, chained_by_cause, chained_by_context, begins_in_the_middle,
         held_by_a_generator, through_a_generator, kept_elsewhere, in_a_group]


@pytest.fixture
def alive(monkeypatch):
    """How many tensors of the watch were alive whenever memory was tidied; it is set as `watch`."""
    found = SimpleNamespace(watch=Watch(), counts=[])
    monkeypatch.setattr(oom_recover, "tidy", lambda: found.counts.append(found.watch.alive))
    return found


@pytest.mark.parametrize("fail", CALLS, ids=lambda call: call.__name__)
def test_no_tensor_of_a_failed_attempt_lives_at_the_next_one_or_in_the_final_error(fail, alive):
    watch = alive.watch
    tries = iter([lambda: fail(watch), lambda: watch.alive])
    assert recovered(lambda: next(tries)()) == 0
    with pytest.raises(OomGuardError) as caught:
        recovered(lambda: fail(watch), cuts=1)
    assert watch.made and set(alive.counts) == {0} and watch.alive == 0
    assert caught.value.__cause__ is not None


def test_the_final_error_shows_where_the_first_failure_came_from():
    def first_place():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB. the first")

    def second_place():
        raise out_of_memory()

    tries = iter([first_place, second_place, second_place])
    with pytest.raises(OomGuardError) as caught:
        recovered(lambda: next(tries)(), cuts=1)
    cause = caught.value.__cause__
    assert isinstance(cause, torch.OutOfMemoryError)
    assert cause.__traceback__ is cause.__cause__ is cause.__context__ is None
    printed = "".join(traceback.format_exception(caught.value))
    assert "in first_place" in printed and "the first" in printed
    assert "in second_place" not in printed


def test_the_place_of_a_failure_is_its_innermost_line():
    def deepest():
        raise out_of_memory()

    try:
        deepest()
    except RuntimeError as error:
        found = error
    failure = Failure.of(found)
    assert failure.place.startswith("deepest, line ")
    assert failure.place.endswith(f" of {Path(__file__).name}")
    assert "raise out_of_memory()" in failure.trace


@pytest.mark.parametrize("error", [
    MemoryError("no more"), OSError(12, "Cannot allocate memory"), RuntimeError(OOM_TEXT),
], ids=lambda error: type(error).__name__)
def test_the_cause_has_the_class_and_the_text_of_the_failure(error):
    cause = Failure.of(error).as_cause()
    assert type(cause) is type(error) and cause is not error
    assert str(error) in str(cause)


def test_an_error_of_a_kind_that_only_its_maker_can_make_becomes_the_known_kind_below_it():
    class Peculiar(torch.OutOfMemoryError):
        def __init__(self, layer, tensor):
            super().__init__(OOM_TEXT)
            self.layer, self.tensor = layer, tensor

    cause = Failure.of(Peculiar("up", torch.zeros(2))).as_cause()
    assert type(cause) is torch.OutOfMemoryError and OOM_TEXT in str(cause)


def test_the_error_that_somebody_outside_is_handling_stays_as_it_is():
    """A node tries the whole picture first and calls a guarded one where that fails."""
    watch = Watch()
    tries = iter([lambda: captured(watch), lambda: "done"])

    def node():
        local = torch.zeros(3)
        raise ValueError("the node's own error", local)

    try:
        node()
    except ValueError as outer:
        assert recovered(lambda: next(tries)()) == "done"
        names = [frame.name for frame in traceback.extract_tb(outer.__traceback__)]
        assert names[-1] == "node"
        assert outer.__traceback__.tb_next.tb_frame.f_locals["local"] is outer.args[1]


def test_a_failure_that_left_such_a_page_has_its_model_loaded_anew(monkeypatch):
    for is_half in (True, False):
        host = GuardHost(has_half_pages=lambda is_half=is_half: is_half)
        monkeypatch.setattr(attempt, "guard_host", lambda host=host: host)
        assert Failure.of(out_of_memory()).is_incomplete is is_half
