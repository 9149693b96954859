"""What is heard in ComfyUI's log; the log itself goes on as it was, on every Python."""

import logging
import threading

import pytest

from headroom.host import prompt_log

WAIT_S = 30


@pytest.fixture
def heard():
    """Put a listener on the root logger; `heard(error_is_handled)` gives what it heard."""
    root = logging.getLogger()
    before = list(root.handlers)

    def listen(error_is_handled=None):
        errors, ends = [], []
        prompt_log.hear(error_is_handled or errors.append, lambda: ends.append(True))
        return errors, ends

    yield listen
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)


def test_a_line_in_the_log_ends_nothing(heard):
    errors, ends = heard()
    logging.getLogger().warning("a line of ComfyUI's")
    assert (errors, ends) == ([], [])


def test_an_error_that_is_handled_and_logged_is_heard(heard):
    errors, _ = heard()
    error = ValueError("of somebody else")
    try:
        raise error
    except ValueError:
        logging.getLogger().error("it failed")
    assert errors == [error]


def test_another_thread_can_log_while_an_error_is_looked_after(heard):
    """The server's thread logs while it is waited for: with a lock neither would go on."""
    looking_after, logged = threading.Event(), threading.Event()

    def wait_for_the_other(_):
        looking_after.set()
        assert logged.wait(WAIT_S)

    def log_from_the_server():
        assert looking_after.wait(WAIT_S)
        logging.getLogger().warning("from the server")
        logged.set()

    heard(wait_for_the_other)
    other = threading.Thread(target=log_from_the_server)
    other.start()
    try:
        raise ValueError("of somebody else")
    except ValueError:
        logging.getLogger().error("it failed")
    other.join(WAIT_S)
    assert logged.is_set()
