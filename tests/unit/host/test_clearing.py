"""Clearing and cancelling stop a rerun, whichever route of ComfyUI is used."""

import pytest

from headroom.host.clearing import empties_queue

WAITING = ["a", "b"]


@pytest.mark.parametrize(("path", "body"), [
    ("/queue", {"clear": True}), ("/api/queue", {"clear": True, "delete": []}),
    ("/api/jobs/cancel", {"job_ids": ["b", "running", "a"]}),
])
def test_a_queue_is_emptied_by_its_own_route_and_by_cancelling_all_jobs_in_it(path, body):
    assert empties_queue(path, body, WAITING)


@pytest.mark.parametrize(("path", "body"), [
    ("/queue", {"delete": ["a", "b"]}), ("/queue", ["clear"]), ("/queue", {"clear": False}),
    ("/api/jobs/cancel", {"job_ids": ["a"]}), ("/api/jobs/cancel", {"job_ids": {"a": 1, "b": 1}}),
    ("/api/jobs/a/cancel", {"job_ids": ["a", "b"]}), ("/api/interrupt", {"clear": True}),
])
def test_other_requests_empty_no_queue(path, body):
    assert not empties_queue(path, body, WAITING)


def test_a_job_that_is_cancelled_alone_with_nothing_waiting_is_an_interrupt_and_no_more():
    assert not empties_queue("/api/jobs/cancel", {"job_ids": ["running"]}, [])
