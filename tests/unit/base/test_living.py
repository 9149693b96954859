"""Living objects are found without harm to other threads; collections skip those of the start."""

import gc
import sys
import threading
import weakref

import pytest
import torch

from headroom.base.living import living, settle


class Model:
    pass


class Finer(Model):
    __slots__ = ("name",)


def test_objects_of_a_class_and_its_subclasses_are_found_and_no_others():
    one, two, other = Model(), Finer(), object()
    found = living(Model)
    assert {id(thing) for thing in found} == {id(one), id(two)}
    assert living(Finer) == [two] and other is not None
    del one, two, found
    assert living(Model) == []


@pytest.fixture
def hasty():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_tuple_that_another_thread_builds_meanwhile_is_built(hasty):
    errors, over = [], threading.Event()

    def build():
        while not over.is_set():
            try:
                assert len(tuple(number for number in range(2000))) == 2000
            except SystemError as error:
                errors.append(error)
                return

    thread = threading.Thread(target=build)
    thread.start()
    kept = [Model() for _ in range(10)]
    for _ in range(40):
        assert len(living(Model)) == len(kept)
    over.set()
    thread.join()
    assert errors == []


class Node:
    """An object that refers to itself."""

    def __init__(self):
        self.me = self


@pytest.fixture
def settled(monkeypatch):
    """All living objects are left out of collections during a test."""
    monkeypatch.setattr("headroom.base.living.living", lambda *_: [])  # no tensor of earlier tests
    early = Node()
    gone = weakref.ref(Node())
    settle()
    yield early, gone
    gc.unfreeze()


def test_collections_do_not_walk_over_living_objects_any_more(settled):
    early, _ = settled
    late = Node()
    walked = {id(thing) for thing in gc.get_objects()}
    assert id(late) in walked and id(early) not in walked and id(early.__dict__) not in walked


def test_garbage_is_collected_before_and_after(settled):
    _, gone = settled
    assert gone() is None
    late = weakref.ref(Node())
    gc.collect()
    assert late() is None


def test_an_object_left_out_of_collections_is_freed_with_its_last_reference():
    class Plain:
        pass

    thing = Plain()
    gone = weakref.ref(thing)
    settle()
    try:
        del thing
        assert gone() is None
    finally:
        gc.unfreeze()


def test_where_a_model_is_loaded_already_nothing_is_left_out():
    early, _model = Node(), torch.zeros(16 << 20, dtype=torch.uint8)
    settle()
    assert id(early) in {id(thing) for thing in gc.get_objects()}
