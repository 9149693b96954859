"""A server's garbage collections walk over objects made after its start, and no others."""

import gc
import weakref

import pytest
import torch

from headroom.base.living import settle


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
