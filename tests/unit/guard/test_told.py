"""What a recovery tells of its attempts while it goes on."""

import time

import pytest
import torch
from support.calls import OOM_TEXT, Failing, recovered

from headroom.guard.errors import OomGuardError
from headroom.guard.recover import TIDIED
from headroom.measure import journal


@pytest.fixture
def attempts():
    entries = []
    stop = journal.listen(entries.append)
    yield entries
    stop()


def test_every_attempt_is_noted_with_what_it_did_and_whether_it_helped(attempts):
    recovered(Failing(2), cuts=1)
    assert [(e.attempt, e.action, e.recovered) for e in attempts] == [
        (1, TIDIED, None), (1, TIDIED, False), (2, "cut to 1", None), (2, "cut to 1", True),
    ]
    assert all("Tried to allocate 64.00 MiB" in e.error for e in attempts)


def test_an_attempt_is_told_before_the_call_is_tried_again(attempts):
    seen = []

    def call():
        seen.append([entry.recovered for entry in attempts])
        if len(seen) == 1:
            raise torch.OutOfMemoryError(OOM_TEXT)

    before = time.perf_counter()
    recovered(call)
    assert seen == [[], [None]]
    assert [entry.recovered for entry in attempts] == [None, True]
    assert attempts[0].number == attempts[1].number
    assert before <= attempts[0].at <= time.perf_counter()


def test_an_attempt_that_ends_in_another_error_did_not_help(attempts):
    errors = iter([torch.OutOfMemoryError(OOM_TEXT), ValueError("the second try")])

    def call():
        raise next(errors)

    with pytest.raises(ValueError, match="the second try"):
        recovered(call)
    assert [entry.recovered for entry in attempts] == [None, False]


def test_the_words_with_which_it_gives_up_are_told(attempts):
    with pytest.raises(OomGuardError) as caught:
        recovered(Failing(9))
    assert attempts[-1].text == str(caught.value)
