"""Models that another thread looks at during a prompt: only the prompt's own thread frees them.

ComfyUI removes a dead model from its list in the thread that dropped the last reference to it
(`cleanup_models`, a finalizer). If that is another thread, the prompt's thread may be inside
`free_memory`, which then has wrong positions in the list: "IndexError: pop from empty list".
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Borrowed:
    """What other threads looked at since the prompt's thread was last between two nodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kept: dict[int, Any] = {}
        self._prompts_thread: int | None = None

    def prompt_begins(self) -> None:
        """Called by the thread of a prompt, before anything in it runs."""
        self._prompts_thread = threading.get_ident()
        self.drop_all()

    def prompt_leaves(self) -> None:
        """Called by the thread of a prompt, when nothing in it runs any more."""
        self._prompts_thread = None
        self.drop_all()

    @contextmanager
    def looked_at(self, things: list[Any]) -> Iterator[list[Any]]:
        """Have this thread look at these models; it has references in this list only."""
        try:
            yield things
        finally:
            self.done_with(things)

    def done_with(self, things: list[Any]) -> None:
        """Empty the list; if a prompt runs in another thread, that thread frees what was in it.

        Called by the thread that looked at them, and has references in this list only.
        """
        with self._lock:  # the prompt's thread cannot free them before this thread has
            if self._prompts_thread not in (None, threading.get_ident()):
                self.kept.update(zip(map(id, things), things, strict=True))
                things.clear()
        things.clear()  # outside of the lock: a finalizer may look at models too

    def drop_all(self) -> None:
        """Drop all references, in the calling thread; costs nothing if there are none."""
        if self.kept:
            with self._lock:
                kept, self.kept = self.kept, {}
            kept.clear()  # outside of the lock, too


borrowed = Borrowed()
