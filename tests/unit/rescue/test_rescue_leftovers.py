"""A failed prompt's models and tensors are freed at its end, and not ten seconds later."""

import gc
import sys
import weakref

import pytest


class Held:
    pass


def failed_node():
    """As ComfyUI handles a node's error: it notes a traceback in a frame that it leads to."""
    held = Held()
    gone = weakref.ref(held)
    try:
        raise RuntimeError
    except RuntimeError:
        trace = sys.exc_info()[2]
    return gone, trace is None


@pytest.fixture(autouse=True)
def no_collection_by_chance():
    gc.disable()
    yield
    gc.enable()


def test_memory_held_by_an_errors_frames_is_freed_when_its_prompt_is_over(bench):
    rescue = bench.rescue
    gone, _ = failed_node()
    rescue.error_is_handled(RuntimeError())
    assert gone() is not None
    rescue.history_is_written()
    assert gone() is None


def test_garbage_is_collected_only_after_a_prompt_that_failed(bench):
    rescue = bench.rescue
    rescue.error_is_handled(RuntimeError())
    rescue.history_is_written()
    gone, _ = failed_node()
    rescue.history_is_written()
    assert gone() is not None
