"""Learn that a prompt's progress registry is in place, before the first node runs.

ComfyUI builds a registry for every prompt and announces it to nobody. What else there is was looked
at in 0.3.75 and 0.33, and carries on neither or on one only: prompt handlers run when a prompt is
posted, the queue tells nobody, `execution_start` is sent only to a client, a cache provider (from
0.17 on) is told before the registry is made, and the event loop turns before the first node only
where something is awaited by then (0.33: `asyncio.gather`; 0.3.75 runs sync nodes without a turn).

What carries: `reset_progress_state` calls `reset()` on the handlers of the old registry, and makes
the new one in its very next statement. In between we put in an empty registry, by the same
function, which that statement drops: the empty one's finalizer runs with the prompt's own in place.

tests/host/test_recorder_runs.py fails where a host stops behaving so. The caller then still has
the event loop's next turn, after which nodes are seen, and the prompt's end, which sees none.
"""

import weakref
from collections.abc import Callable
from typing import Any

from comfy_execution.graph import DynamicPrompt
from comfy_execution.progress import ProgressHandler, get_progress_state, reset_progress_state


class RegistryWatch:
    """Calls `in_place` when the registry that follows an `expect` is in place."""

    def __init__(self, in_place: Callable[[], None]) -> None:
        self._in_place = in_place
        self._empty: weakref.ref[Any] | None = None
        self.is_placing = False

    def expect(self, handler: ProgressHandler) -> None:
        """Put in an empty registry; to be called from the `reset()` of `handler`.

        `handler` is registered in it, so that its next `reset()` comes should ComfyUI keep it. The
        call resets the handlers of the old registry again: `is_placing` is True meanwhile.
        """
        self.is_placing = True
        try:
            reset_progress_state("", DynamicPrompt({}))
        finally:
            self.is_placing = False
        empty = get_progress_state()
        empty.register_handler(handler)
        self._empty = weakref.ref(empty, lambda _: self._in_place())
