"""ComfyUI's executor as far as PromptEvents meets it: the progress registry, and prompts that run.

It is as in 0.3.75 and 0.33.0; tests/host/test_recorder_runs.py asks the real ones.
"""

import asyncio
from types import SimpleNamespace

from support.comfyui import on_comfyui


class ProgressHandler:
    def __init__(self, name):
        self.name = name

    def start_handler(self, node_id, state, prompt_id): ...
    def finish_handler(self, node_id, state, prompt_id): ...
    def reset(self): ...


class Registry:
    def __init__(self, prompt_id, dynprompt):
        self.prompt_id, self.dynprompt = prompt_id, dynprompt
        self.nodes, self.handlers = {}, {}

    def register_handler(self, handler):
        self.handlers[handler.name] = handler

    def reset_handlers(self):
        for handler in self.handlers.values():
            handler.reset()

    def tell(self, node_id, word, method):
        state = self.nodes.setdefault(node_id, {})
        state["state"] = SimpleNamespace(value=word)
        for handler in self.handlers.values():
            getattr(handler, method)(node_id, state, self.prompt_id)


class DynamicPrompt:
    def __init__(self, prompt):
        self.prompt = prompt


class Execution:
    """One process's executor. `awaits_cache`: it turns its loop before the first node (0.17)."""

    def __init__(self, awaits_cache):
        self.awaits_cache = awaits_cache
        self.registry = None
        self.asks_first = lambda: None  # what is called before the first node, as IS_CHANGED is

    def get_progress_state(self):
        if self.registry is None:
            self.registry = Registry("", DynamicPrompt({}))
        return self.registry

    def reset_progress_state(self, prompt_id, dynprompt):
        if self.registry is not None:
            self.registry.reset_handlers()
        self.registry = Registry(prompt_id, dynprompt)

    def run(self, prompt_id, *nodes):
        """Run a prompt of these nodes: functions, that may be async."""
        asyncio.run(self.execute(prompt_id, *nodes))

    async def execute(self, prompt_id, *nodes):
        self.begin(prompt_id)
        self.asks_first()
        if self.awaits_cache:
            await asyncio.gather(*[_nothing() for _ in nodes])
        for number, work in enumerate(nodes, 1):
            self.get_progress_state().tell(str(number), "running", "start_handler")
            found = work()
            if found is not None:
                await found
            self.get_progress_state().tell(str(number), "finished", "finish_handler")

    def begin(self, prompt_id):
        self.reset_progress_state(prompt_id, DynamicPrompt({}))
        webui = ProgressHandler("webui")
        webui.registry = self.registry  # a circle, as ComfyUI's own handler makes one
        self.registry.register_handler(webui)


def prompt_events(execution, monkeypatch):
    """headroom/host/prompt_events.py as beside this executor."""
    cache = _AwaitedCache if execution.awaits_cache else _Cache
    return on_comfyui(
        monkeypatch, "prompt_nodes", "prompt_events", execution={"nodes": SimpleNamespace()},
        comfy_execution__caching={"NullCache": cache},
        comfy_execution__graph={"DynamicPrompt": DynamicPrompt},
        comfy_execution__progress={
            "ProgressHandler": ProgressHandler, "get_progress_state": execution.get_progress_state,
            "reset_progress_state": execution.reset_progress_state})


async def _nothing():
    return None


class _Cache:
    def get(self, node_id): ...


class _AwaitedCache:
    async def get(self, node_id): ...
