"""What is heard in the log: errors that are handled there, and the end of a prompt."""

import logging
import threading

import pytest

pytestmark = pytest.mark.usefixtures("events")
WAIT_S = 30


def test_a_line_in_the_log_ends_nothing(heard):
    logging.getLogger().warning("a line of ComfyUI's")
    assert heard == []


def log_an_error(error):
    try:
        raise error
    except ValueError:
        logging.error("it failed")


def test_an_error_that_is_handled_and_logged_is_heard(heard):
    error = ValueError("of somebody else")
    log_an_error(error)
    assert heard == [error]


def test_the_end_of_a_prompt_is_heard(heard):
    def prompt_worker():
        logging.warning("Prompt executed in 0.01 seconds")

    prompt_worker()
    assert heard == ["over"]


def test_an_error_of_ours_while_one_is_heard_ends_nothing(heard, caplog):
    def fails(_):
        raise ValueError("of ours")

    heard.error = fails
    log_an_error(ValueError("of somebody else"))
    assert caplog.text.count("handling a prompt that ran out of memory failed") == 1


def test_another_thread_can_log_while_an_error_is_looked_after(heard):
    """The server's thread logs while it is waited for: with a lock neither would go on."""
    looking_after, logged, waited = threading.Event(), threading.Event(), []

    def wait_for_the_other(_):
        looking_after.set()
        waited.append(logged.wait(WAIT_S))

    def log_from_the_server():
        assert looking_after.wait(WAIT_S)
        logging.getLogger().warning("from the server")
        logged.set()

    heard.error = wait_for_the_other
    other = threading.Thread(target=log_from_the_server)
    other.start()
    log_an_error(ValueError("of somebody else"))
    other.join()
    assert waited == [True]
