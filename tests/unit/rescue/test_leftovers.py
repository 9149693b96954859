"""A failed prompt's models and tensors go when it is over, and not ten seconds later."""

import gc
import sys
import weakref

import pytest
from support.rescue_bench import Bench


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


def test_what_the_frames_of_an_error_held_goes_when_its_prompt_is_over():
    rescue = Bench().rescue
    gone, _ = failed_node()
    rescue.error_is_handled(RuntimeError())
    assert gone() is not None
    rescue.history_is_written()
    assert gone() is None


def test_only_the_prompt_that_failed_is_collected_after():
    rescue = Bench().rescue
    rescue.error_is_handled(RuntimeError())
    rescue.history_is_written()
    gone, _ = failed_node()
    rescue.history_is_written()
    assert gone() is not None
