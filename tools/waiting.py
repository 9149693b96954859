"""Wait for what must come true."""

import time
from collections.abc import Callable
from typing import Any

LONGEST_SECONDS = 240.0  # Ray Serve on a busy machine with two cores
PAUSE_SECONDS = 0.05  # conditions ask a server, or look through all processes


def wait_until(condition: Callable[[], Any], timeout: float = LONGEST_SECONDS) -> Any:
    """Return the first true result of `condition`; TimeoutError if there is none in time."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"What was waited for has not come true in {timeout:g} s.")
        time.sleep(PAUSE_SECONDS)
    return found
