"""The host adapter to ComfyUI's execution: learn when prompts and nodes begin and end.

ComfyUI tells a progress handler about each node, but a handler registered once would see one prompt
only: registry_watch.py finds each new prompt's registry, loop_end.py the end of the prompt. Should
that registry not be found at once, the event loop's next turn finds it, or the prompt's end.

ComfyUI walks over the registry's handlers in the thread of the prompt, and a handler that is added
meanwhile ends the prompt with "dictionary changed size during iteration". So nothing is added by
another thread while a prompt runs, nor while a node is told of.
"""

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Protocol

from comfy_execution.progress import ProgressHandler, get_progress_state
from execution import nodes as core_nodes

from ..base.graph import title_given
from .borrowed import borrowed
from .loop_end import LoopEnd
from .registry_watch import RegistryWatch
from .types import NodeCallback, NodeLabel

log = logging.getLogger("headroom")


class PromptListener(Protocol):
    """Who wants to know. Called in the thread that executes prompts; must be quick."""

    def prompt_resets(self) -> None: ...

    def prompt_begins(self, prompt_id: str, graph: "Graph", running: list[str]) -> None: ...

    def prompt_leaves(self) -> None: ...

    @property
    def node_starts(self) -> NodeCallback: ...

    @property
    def node_finishes(self) -> NodeCallback: ...


class Graph:
    """What the running prompt knows about its nodes, those made by expansion included."""

    def __init__(self, dynamic_prompt: Any) -> None:
        self._prompt = dynamic_prompt
        self._async_classes: dict[str, bool] = {}

    def has(self, node_id: str) -> bool:
        return bool(self._prompt.has_node(node_id))

    def describe(self, node_id: str) -> NodeLabel:
        """Return what a node is: its title is the one its user gave, else its display name."""
        if not self.has(node_id):
            return NodeLabel(node_id, "", node_id, node_id)
        node = self._prompt.get_node(node_id)
        class_type = node["class_type"]
        names = core_nodes.NODE_DISPLAY_NAME_MAPPINGS
        parent = self._prompt.get_parent_node_id(node_id)
        return NodeLabel(
            node_id=node_id,
            class_type=class_type,
            title=title_given(node) or str(names.get(class_type, class_type)),
            display_node_id=self._prompt.get_display_node_id(node_id),
            parent_node_id=parent,
            is_async=self._is_async(class_type),
        )

    def _is_async(self, class_type: str) -> bool:
        """Return whether the node's function is a coroutine, so that others may run meanwhile."""
        if class_type not in self._async_classes:
            found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
            function = getattr(found, str(getattr(found, "FUNCTION", "")), None)
            self._async_classes[class_type] = inspect.iscoroutinefunction(function)
        return self._async_classes[class_type]


def _never_fails(method: Callable[..., None]) -> Callable[..., None]:
    """Log what `method` raises: an error of ours must not end the prompt that it watches."""

    @functools.wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            log.exception("[Headroom] recording this prompt failed; the prompt itself goes on")

    return guarded


class PromptWatcher(ProgressHandler):  # type: ignore[misc]
    """A progress handler that moves on to each new prompt's registry by itself."""

    def __init__(self, listener: PromptListener, is_running: Callable[[str], bool]) -> None:
        super().__init__("headroom")
        # ComfyUI calls these for every node, so nothing of ours stands between.
        self.start_handler = listener.node_starts
        self.finish_handler = listener.node_finishes
        self._listener = listener
        self._is_running = is_running
        self._open_prompt: str | None = None
        self._end = LoopEnd(lambda: self._leave())
        self._registry = RegistryWatch(self._in_place)
        self.attached_by = ""  # who found the present registry, for tests

    @_never_fails
    def attach(self) -> None:
        """Register in the present registry; to be called while no prompt runs."""
        self._register(get_progress_state(), "idle")

    @_never_fails
    def _find(self, found_by: str) -> None:
        """Register in the present registry, and announce its prompt; nothing when done already.

        A prompt within the open one is another executor's and not announced. To be called in the
        thread of the prompt, and between two nodes.
        """
        registry = get_progress_state()
        is_new = self._register(registry, found_by)
        if is_new and registry.prompt_id and self._open_prompt is None:
            self._open_prompt = registry.prompt_id
            graph = Graph(registry.dynprompt)
            self._listener.prompt_begins(registry.prompt_id, graph, _running_nodes(registry))

    def _register(self, registry: Any, found_by: str) -> bool:
        if registry.handlers.get(self.name) is self:
            return False
        registry.register_handler(self)
        self.attached_by = found_by
        return True

    def _in_place(self) -> None:
        if not get_progress_state().handlers:  # else it is not new: somebody kept the empty one
            self._find("registry")

    @_never_fails
    def reset(self) -> None:
        """A prompt begins (called by ComfyUI before it builds the prompt's registry)."""
        if self._registry.is_placing or self._is_amid_prompt():
            return
        self._open_prompt = None
        self._listener.prompt_resets()
        self._watch_event_loop()
        self._registry.expect(self)

    def _is_amid_prompt(self) -> bool:
        """Return whether somebody resets the handlers of a prompt that still runs."""
        return self._open_prompt is not None and self._is_running(self._open_prompt)

    def _watch_event_loop(self) -> None:
        if self._end.watch():
            borrowed.prompt_begins()  # only where its end will be told
            asyncio.get_running_loop().call_soon(self._find, "event loop")

    @_never_fails
    def _leave(self) -> None:
        self._find("end")
        self._open_prompt = None
        borrowed.prompt_leaves()
        self._listener.prompt_leaves()


def _running_nodes(registry: Any) -> list[str]:
    states = list(registry.nodes.items())
    return [str(node_id) for node_id, state in states if state["state"].value == "running"]
