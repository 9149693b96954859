"""What the next call of a kind learns from a recovery, and when the lesson is forgotten."""

from types import SimpleNamespace

import pytest
from support.calls import Changing, Failing
from support.hosts import MIB, Entry, Host, Patcher
from support.shortages import GPU, lacking

from headroom.guard import lessons, weights
from headroom.guard import recover as oom_recover
from headroom.guard.call import GuardOptions
from headroom.guard.lack import Lack
from headroom.guard.recover import recover


@pytest.fixture
def host(monkeypatch):
    """A host with that many free bytes and no loaded weights."""
    found = Host(free_bytes=100 * MIB)
    monkeypatch.setattr(lessons, "current_host", lambda: found)
    lessons.forget_all()
    yield found
    lessons.forget_all()


def recall(kind):
    return lessons.recall(kind, GPU)


@pytest.mark.parametrize(("missing", "free_mib", "known"), [
    (30 * MIB, (60, 100, 129), "way"), (1, (101,), "way"),  # a few megabytes more
    (30 * MIB, (130, 100), None),  # and it is not learned again
])
def test_a_lesson_counts_until_what_was_missing_is_free(host, missing, free_mib, known):
    lessons.learn("kind", "way", lessons.room_bytes(GPU), missing_bytes=missing)
    for mib in free_mib:
        host.free_bytes = mib * MIB
        assert recall("kind") == known
    assert recall("another kind") is None


def test_weights_that_can_go_count_as_free(host):
    host.entries = [Entry(Patcher(device=GPU, size=40 * MIB))]
    host.free_bytes = 60 * MIB
    lessons.learn("kind", "way", lessons.room_bytes(GPU), missing_bytes=20 * MIB)
    host.entries, host.free_bytes = [], 100 * MIB
    assert recall("kind") == "way"


def test_the_oldest_of_many_lessons_goes(host):
    for index in range(lessons._MOST + 1):
        lessons.learn(index, "way", lessons.room_bytes(GPU), 1)
    assert recall(0) is None and recall(1) == "way"


@pytest.fixture
def lacked(monkeypatch):
    """What every failed call lacked."""
    found = SimpleNamespace(lack=lacking())
    monkeypatch.setattr(oom_recover, "lack_of", lambda failure, used, clean: found.lack)
    monkeypatch.setattr(weights, "other_bytes", lambda in_use, lack: 0)
    return found


def call_of(kind, failures=0, cuts=3, then=lambda: None):
    fails = Failing(failures)

    def do():
        result = fails()
        then()
        return result

    call = Changing(do, cuts=cuts, key=kind)
    call.device = GPU
    recover(call, GuardOptions())
    return call.plans


def test_the_next_call_of_a_kind_begins_with_what_worked(host, entries, lacked):
    assert call_of("kind", failures=2)[-1].parts == 2
    entries.clear()
    assert [plan.parts for plan in call_of("kind")] == [2]
    assert [entry.text for entry in entries] == [
        "returned cached and unused memory and cut to 2: remembered from an earlier call"]
    assert [plan.parts for plan in call_of("another kind")] == [None]


def test_where_memory_was_only_in_pieces_the_next_call_begins_with_an_empty_cache(
    host, entries, lacked
):
    lacked.lack = lacking(need=300, room=1000)
    call_of("kind", failures=1)
    entries.clear()
    assert [plan.parts for plan in call_of("kind")] == [None]
    assert [entry.text for entry in entries] == [
        "returned cached and unused memory: remembered from an earlier call"]


def test_a_lesson_is_kept_when_a_later_failure_was_only_fragmentation(host, entries, lacked):
    call_of("kind", failures=2)
    lacked.lack = lacking(need=300, room=1000)
    assert [plan.parts for plan in call_of("kind", failures=1)] == [2, 2]
    assert [plan.parts for plan in call_of("kind")] == [2]


def test_a_failure_of_which_nobody_knows_what_it_lacked_teaches_nothing(host, entries, lacked):
    lacked.lack = Lack("device", GPU)
    assert call_of("kind", failures=2)[-1].parts == 3
    assert [plan.parts for plan in call_of("kind")] == [None]


def test_memory_that_a_call_keeps_at_its_end_does_not_count_as_less_room(host, lacked):
    def keeps():
        host.free_bytes = 20 * MIB

    call_of("kind", failures=1, then=keeps)
    host.free_bytes = 100 * MIB
    assert recall("kind") is not None


def test_a_remembered_plan_that_asks_for_it_begins_with_no_other_model(host, lacked, monkeypatch):
    unloaded = []
    monkeypatch.setattr(weights, "unload_others", lambda in_use, device: unloaded.append(device))
    lessons.learn("kind", oom_recover.Plan(alone=True), 100 * MIB, 10 * MIB)
    call_of("kind")
    assert unloaded == [GPU]
