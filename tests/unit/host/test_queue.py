"""ComfyUI's queue, on a stand-in of it: where prompts of an ended server come."""

import contextlib
import heapq
from types import SimpleNamespace

import pytest
from support.comfyui import on_comfyui


class PromptQueue:
    """As in ComfyUI: the lowest number is first, and a prompt of the same number after it."""

    mutex = contextlib.nullcontext()

    def __init__(self):
        self.heap = []

    def put(self, item):
        heapq.heappush(self.heap, item)

    def get_current_queue_volatile(self):
        return [], list(self.heap)


@pytest.fixture
def host(monkeypatch):
    """headroom/host/queue.py with an empty queue."""
    names = ("cached_now", "change_marks", "node_of", "shown_nodes")
    return on_comfyui(
        monkeypatch, "queue", comfy__cli_args={}, comfy__model_management={}, execution={},
        comfy_execution__progress={"get_progress_state": None},
        ours__node_cache=dict.fromkeys(names), server={"PromptServer": SimpleNamespace(
            instance=SimpleNamespace(prompt_queue=PromptQueue()))})


def test_what_is_queued_at_the_front_later_comes_before_prompts_of_an_ended_server(host):
    """ComfyUI numbers the prompts that are posted 0, 1, 2 …, and -0, -1, -2 … at the front."""
    queue = host.PromptServer.instance.prompt_queue
    queue.put((0, "first", {}, {}, [], {}))
    left = [(f"left {number}", {}, {}, ["1"]) for number in range(100)]
    host.put_before_all(left)
    queue.put((-1, "at the front", {}, {}, [], {}))
    host.put_before_all([("left by another", {}, {}, ["1"])])
    queue.put((-2, "again at the front", {}, {}, [], {}))
    order = [heapq.heappop(queue.heap)[1] for _ in range(104)]
    assert order == ["again at the front", "left by another", "at the front",
                     *(one[0] for one in left), "first"]
