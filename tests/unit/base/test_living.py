"""Living objects are found, and no other thread is disturbed by the search."""

import sys
import threading

import pytest

from headroom.base.living import living


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
