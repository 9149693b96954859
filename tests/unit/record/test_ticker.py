"""A thread that reads while a prompt runs goes on after an error, and does not fill the log."""

import threading

from headroom.record.ticker import Steady, Ticker


def test_an_error_at_every_tick_is_logged_once_and_the_next_tick_comes(caplog):
    ticks = threading.Semaphore(0)

    def look():
        ticks.release()
        raise OSError("too many open files")

    ticker = Ticker(look, seconds=0.0)
    ticker.start()
    ticker.wake()
    assert all(ticks.acquire(timeout=60) for _ in range(3))
    ticker.rest()
    assert len(caplog.records) == 1


def test_an_error_after_one_that_has_passed_is_logged_again(caplog):
    steady = Steady("it failed")
    for text in ("x", "x", "1", "x"):
        steady.call(int, text)
    assert len(caplog.records) == 2
