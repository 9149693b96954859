"""What a recovery writes into the journal about each of its attempts."""

import time

import pytest
import torch
from support.calls import OOM_TEXT, Failing, recovered

from headroom.guard.errors import OomGuardError
from headroom.guard.recover import TIDIED


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
    assert entries[0].number == entries[1].number
    assert before <= entries[0].at <= time.perf_counter()


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
