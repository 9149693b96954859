"""Hear in ComfyUI's log when an error is handled, and when a prompt is over.

Nothing else tells either in time: the error itself is there only while it is being handled, and
between the end of a prompt and the next one ComfyUI does nothing but write its history and a line
in the log. Both are heard in the thread that runs prompts, which waits for as long as it takes.
Where the log is silenced nothing is heard, and the recorder notices the end a moment later.
"""

import logging
import sys
from collections.abc import Callable

log = logging.getLogger("headroom")


class _Ear(logging.Handler):
    def __init__(
        self, error_is_handled: Callable[[BaseException], None], prompt_is_over: Callable[[], None]
    ) -> None:
        super().__init__(logging.INFO)
        self._error_is_handled = error_is_handled
        self._prompt_is_over = prompt_is_over

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the handler's lock: the server's thread logs too, and the thread that runs
        prompts, which is heard here, may be waiting for it.
        """
        if self.filter(record):
            self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        if record.funcName == "prompt_worker":
            self._safely(self._prompt_is_over)
        elif record.levelno >= logging.WARNING:
            error = sys.exc_info()[1]
            if error is not None:
                self._safely(lambda: self._error_is_handled(error))

    def _safely(self, call: Callable[[], None]) -> None:
        """An error of ours must not end the thread that runs prompts."""
        try:
            call()
        except Exception:
            log.exception("[Headroom] looking after a prompt that ran out of memory failed")


def hear(
    error_is_handled: Callable[[BaseException], None], prompt_is_over: Callable[[], None]
) -> None:
    """Call `error_is_handled(error)` where somebody handles an error and logs it, in any thread,
    and `prompt_is_over()` after a prompt. Either may be called more than once.
    """
    logging.getLogger().addHandler(_Ear(error_is_handled, prompt_is_over))
