"""Models that another thread looks at beside a prompt: the prompt's own thread lets go of them.

ComfyUI takes a dead model out of its list in the thread that let go of it last (`cleanup_models`,
a finalizer). Where that is another one than the prompt's, the prompt may be in `free_memory` just
then, whose places in the list are wrong from there on: "IndexError: pop from empty list".
"""

import threading
from typing import Any


class Borrowed:
    """What other threads looked at since the prompt's thread was last between two nodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kept: dict[int, Any] = {}
        self._prompts_thread: int | None = None

    def prompt_begins(self) -> None:
        """Called by the thread of a prompt, before anything of it runs."""
        self._prompts_thread = threading.get_ident()
        self.let_go()

    def prompt_leaves(self) -> None:
        """Called by the thread of a prompt, when nothing of it runs any more."""
        self._prompts_thread = None
        self.let_go()

    def done_with(self, things: list[Any]) -> None:
        """Empty the list; what was in it is kept for the prompt's thread, if one runs elsewhere.

        Called by who looked at them, who holds them in this list alone.
        """
        with self._lock:  # the prompt's thread cannot let go of them before this one has
            if self._prompts_thread not in (None, threading.get_ident()):
                self.kept.update(zip(map(id, things), things, strict=True))
                things.clear()
        things.clear()  # outside of the lock: a finalizer may look at models itself

    def let_go(self) -> None:
        """Forget everything, in the calling thread; costs nothing where there is nothing."""
        if self.kept:
            with self._lock:
                kept, self.kept = self.kept, {}
            kept.clear()  # outside of the lock, too


borrowed = Borrowed()
