"""ComfyUI's queue and history, used as its own /prompt route uses them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import comfy.cli_args
import comfy.model_management as mm
import execution
from comfy_execution.progress import get_progress_state
from server import PromptServer

from .node_cache import cached_now as cached_now
from .node_cache import change_marks as change_marks
from .node_cache import node_of as node_of
from .node_cache import shown_nodes as shown_nodes
from .server import history_entry as history_entry
from .server import queue_items as queue_items

VALIDATE_SECONDS = 120.0


class QueueError(ValueError):
    """ComfyUI refuses the prompt; the message is ComfyUI's."""


def running_item() -> tuple[Any, ...] | None:
    """Return the queue's entry of the prompt that runs: (number, id, prompt, extra, outputs, …)."""
    running = queue_items()[0]
    return running[0] if running else None


def _known_item(prompt_id: str) -> tuple[Any, ...] | None:
    """Return the queue's entry of a prompt that runs or is in the history."""
    item = running_item()
    if item is None or str(item[1]) != prompt_id:
        item = (history_entry(prompt_id) or {}).get("prompt")
    return item


def prompt_of(prompt_id: str) -> dict[str, Any] | None:
    """Return the API prompt of one that runs or is in the history, not a copy: only read it."""
    item = _known_item(prompt_id)
    found: dict[str, Any] | None = None if item is None else item[2]
    return found


def workflow_id_of(prompt_id: str) -> str | None:
    """Return the id of the workflow that a page queued the prompt from; None if it told none."""
    told: Any = (_known_item(prompt_id) or (None,) * 4)[3]
    for name in ("extra_pnginfo", "workflow", "id"):
        told = told.get(name) if isinstance(told, dict) else None
    return told if isinstance(told, str) else None


def is_known(prompt_id: str) -> bool:
    listed = {str(item[1]) for part in queue_items() for item in part}
    return prompt_id in listed or history_entry(prompt_id) is not None


def put_first(
    after: float, prompt_id: str, prompt: Mapping[str, Any], extra_data: Mapping[str, Any],
    outputs: list[str], sensitive: Mapping[str, Any],
) -> None:
    """Queue a prompt before all others. `after`: the number of the prompt that it repeats.

    Its own number is between that number and the next, so lists sorted by number keep the order.
    """
    queue = PromptServer.instance.prompt_queue
    extra = {**extra_data, "create_time": int(time.time() * 1000)}
    with queue.mutex:
        queued = queue_items()[1]
        number = number_between(after, [item[0] for item in queued])
        queue.put((number, prompt_id, prompt, extra, outputs, dict(sensitive)))


def put_before_all(
    items: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any], list[str]]]
) -> None:
    """Queue prompts before all others, in this order: each an id, a prompt, extra data, outputs.

    Their numbers are fractions: what somebody queues at the front after them gets minus ComfyUI's
    count of posted prompts as its number, which must be below all of theirs.
    """
    queue = PromptServer.instance.prompt_queue
    with queue.mutex:
        queued = queue_items()[1]
        lowest = min([0.0, *(item[0] for item in queued)]) - 1
        for place, (prompt_id, prompt, extra_data, outputs) in enumerate(items, 1):
            number = lowest + place / (len(items) + 1)
            queue.put((number, prompt_id, prompt, dict(extra_data), outputs, {}))


def running_nodes() -> list[str]:
    """Return the nodes that run now, the one that began last at the end."""
    nodes = list(get_progress_state().nodes.items())
    return [str(node_id) for node_id, state in nodes if state["state"].value == "running"]


def number_between(after: float, queued: list[float]) -> float:
    """Return a number smaller than all in the queue, and larger than `after` if possible."""
    first = min(queued, default=after + 1)
    return (after + first) / 2 if first > after else first - 0.5


def validated(prompt_id: str, prompt: Mapping[str, Any], outputs: list[str]) -> list[str]:
    """Return those of `outputs` that ComfyUI accepts; QueueError if it refuses all.

    It validates as ComfyUI's /prompt route does, in the server's thread; do not call it there.
    """
    waiting = asyncio.run_coroutine_threadsafe(
        execution.validate_prompt(prompt_id, prompt, outputs), PromptServer.instance.loop)
    fits, error, outputs = waiting.result(VALIDATE_SECONDS)[:3]
    if fits:
        return list(outputs)
    details = f" ({error['details']})" if error.get("details") else ""
    raise QueueError(f"{error['message']}{details}"[:500])


def interrupt(prompt_id: str, before: Callable[[], None]) -> bool:
    """Interrupt a prompt as ComfyUI's own route does, and call `before` first.

    False if it does not run, or if somebody has asked for an interrupt already.
    """
    with PromptServer.instance.prompt_queue.mutex:
        item = running_item()
        if item is None or str(item[1]) != prompt_id or interrupt_is_asked():
            return False
        before()
        mm.interrupt_current_processing(True)
        return True


def interrupt_is_asked() -> bool:
    """Return whether somebody asked for an interrupt that no node has noticed yet."""
    return bool(mm.processing_interrupted())


def keeps_no_results() -> bool:
    """Return whether this server was started with --cache-none, so that it keeps no results."""
    return bool(getattr(comfy.cli_args.args, "cache_none", False))


def send_event(event: str, data: dict[str, Any], client_id: str | None) -> None:
    """Send an event to one client; to all if it is None."""
    PromptServer.instance.send_sync(event, data, client_id)
