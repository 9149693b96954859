"""Learn what ComfyUI executes: a prompt begins, its nodes start and finish, errors, its end.

No single hook of ComfyUI reports all this. These do, in the thread that runs prompts:

- ComfyUI calls `reset()` of a progress handler before it makes the prompt's registry, but reports
  nothing when it is made. From 0.17 on it then awaits its cache for all nodes at once, so the event
  loop turns before the first node starts. Before 0.17 it does not. There we put in an empty
  registry meanwhile, by ComfyUI's own function. The statement that makes the prompt's registry
  drops the empty one, and its finalizer is the sign. If a registry is found late, in the next turn
  of the loop or at the loop's end, we put in the empty one from then on, on this ComfyUI too.
- A task that only waits is cancelled when `asyncio.run` ends the prompt's event loop. We keep a
  reference to it: the loop has weak ones, and the garbage collector would delete the task.
- An error exists only while it is handled; ComfyUI then writes it to its log (`execute` logs an
  interrupt as information). After the history of a prompt is written, ComfyUI logs how long the
  prompt took. If the log is silenced we receive neither, and the recorder notices the end a moment
  later.

Cache providers (from 0.17 on) are called at a prompt's beginning and end. But with one registered,
ComfyUI hashes each node with all nodes before it, three times: 200 nodes that do nothing took 4
times as long in chains of 10, and 7 times in one chain (0.33.0).

ComfyUI loops over the registry's handlers in the prompt's thread, and a handler that is added
meanwhile ends the prompt with "dictionary changed size during iteration". So no other thread adds
one while a prompt runs, and nobody while an event of a node is reported.
"""

import asyncio
import functools
import inspect
import logging
import sys
import weakref
from collections.abc import Callable
from typing import Any

from comfy_execution.caching import NullCache
from comfy_execution.graph import DynamicPrompt
from comfy_execution.progress import ProgressHandler, get_progress_state, reset_progress_state

from .borrowed import borrowed
from .prompt_nodes import label_of

log = logging.getLogger("headroom")


def _never_fails(method: Callable[..., None]) -> Callable[..., None]:
    """Log what `method` raises: an error of ours must not end the prompt."""

    @functools.wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            log.exception("[Headroom] recording this prompt failed; the prompt itself continues")

    return guarded


class PromptEvents(ProgressHandler):  # type: ignore[misc]
    """Reports prompts and nodes to `listener`, whether a browser or another client queued them.

    `listener` is the recorder; its methods are called in the prompt's thread and must be quick.
    `error_is_handled(error)` is called when somebody handles an error and logs it, in any thread;
    `prompt_is_over()` after a prompt, when ComfyUI's history has it. Either may be called more
    than once. `is_running(id)` returns whether ComfyUI runs that prompt now.
    """

    def __init__(
        self, listener: Any, is_running: Callable[[str], bool],
        error_is_handled: Callable[[BaseException], None], prompt_is_over: Callable[[], None],
    ) -> None:
        super().__init__("headroom")
        # ComfyUI calls these for every node, so they are the listener's own methods.
        self.start_handler = listener.node_starts
        self.finish_handler = listener.node_finishes
        self.update_handler = listener.node_progresses
        self._listener = listener
        self._is_running = is_running
        self._log = _LogReader(error_is_handled, prompt_is_over)
        self._open_prompt: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._needs_sign = not inspect.iscoroutinefunction(NullCache.get)
        self._empty: weakref.ref[Any] | None = None
        self._is_placing = False

    def listen(self) -> None:
        """Begin; call it once, while no prompt runs."""
        logging.getLogger().addHandler(self._log)
        self.attach()

    @_never_fails
    def attach(self) -> None:
        """Register in the present registry, if it is a new one; call it between prompts."""
        self._register(get_progress_state())

    def _register(self, registry: Any) -> bool:
        if registry.handlers.get(self.name) is self:
            return False
        registry.register_handler(self)
        return True

    # ---------------------------------------------------- a prompt begins

    @_never_fails
    def reset(self) -> None:
        """A prompt begins (called by ComfyUI before it makes the prompt's registry)."""
        if self._is_placing or self._is_amid_prompt():
            return
        self._open_prompt = None
        self._listener.prompt_resets()
        self._watch_event_loop()
        if self._needs_sign:
            self._place_empty_registry()

    def _is_amid_prompt(self) -> bool:
        """Return whether somebody resets the handlers of a prompt that still runs."""
        return self._open_prompt is not None and self._is_running(self._open_prompt)

    def _place_empty_registry(self) -> None:
        """Make ComfyUI's next statement drop a registry, so that its finalizer is a sign.

        The call resets the handlers of the old registry again. This handler is in it, so it gets
        its next `reset()` even if ComfyUI keeps the registry.
        """
        self._is_placing = True
        try:
            reset_progress_state("", DynamicPrompt({}))
        finally:
            self._is_placing = False
        empty = get_progress_state()
        self._register(empty)
        self._empty = weakref.ref(empty, lambda _: self._is_in_place())

    def _is_in_place(self) -> None:
        if not get_progress_state().handlers:  # else it is not new: the empty one was kept
            self._find()

    @_never_fails
    def _find(self) -> None:
        """Register in the present registry and announce its prompt, if that is not done yet.

        A prompt inside the open one belongs to another executor and is not announced. Call it in
        the thread of the prompt, between two nodes.
        """
        registry = get_progress_state()
        is_new = self._register(registry)
        if is_new and registry.prompt_id and self._open_prompt is None:
            self._open_prompt = registry.prompt_id
            self._needs_sign = self._needs_sign or bool(registry.nodes)
            running = [str(node_id) for node_id, state in list(registry.nodes.items())
                       if state["state"].value == "running"]
            label = functools.partial(label_of, registry.dynprompt)
            self._listener.prompt_begins(registry.prompt_id, label, running)

    # ---------------------------------------------------- it ends

    def _watch_event_loop(self) -> None:
        """Watch the loop that runs in this thread, and no other one."""
        old, self._task = self._task, None
        if old is not None and not old.get_loop().is_closed():
            old.get_loop().call_soon_threadsafe(old.cancel)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the end of this prompt is noticed later
        loop.call_soon(self._find)
        self._task = loop.create_task(_until_cancelled())
        self._task.add_done_callback(self._loop_ends)
        borrowed.prompt_begins()  # only where its end will be reported

    def _loop_ends(self, task: Any) -> None:
        if task is self._task:
            self._task = None
            self._leave()

    @_never_fails
    def _leave(self) -> None:
        self._find()
        self._open_prompt = None
        borrowed.prompt_leaves()
        self._listener.prompt_leaves()


async def _until_cancelled() -> None:
    await asyncio.get_running_loop().create_future()


class _LogReader(logging.Handler):
    """Learns from ComfyUI's log that an error is handled, and that a prompt is over."""

    def __init__(
        self, error_is_handled: Callable[[BaseException], None], prompt_is_over: Callable[[], None]
    ) -> None:
        super().__init__(logging.INFO)
        self._error_is_handled = error_is_handled
        self._prompt_is_over = prompt_is_over

    def handle(self, record: logging.LogRecord) -> bool:
        """Do not take the handler's lock: the server's thread logs too, and the thread that runs
        prompts, which logs here, may wait for it.
        """
        if self.filter(record):
            self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if record.funcName == "prompt_worker":
                self._prompt_is_over()
            elif record.name != log.name and (
                    record.levelno >= logging.WARNING or record.funcName == "execute"):
                error = sys.exc_info()[1]
                if error is not None:
                    self._error_is_handled(error)
        except Exception:  # an error of ours must not end the thread that runs prompts
            log.exception("[Headroom] handling a prompt that ran out of memory failed")
