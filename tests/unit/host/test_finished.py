"""Results of loops in ComfyUI's node cache, read from stand-ins of its modules."""

import sys
from types import SimpleNamespace

import pytest
from support.comfyui import on_comfyui

NAN = float("nan")


class Prompt:
    def get_parent_node_id(self, node_id):
        return "start" if "." in node_id else None

    def get_display_node_id(self, node_id):
        return node_id.rpartition("_")[2]


class Caches:
    def __init__(self, keys, cache):
        self.outputs = SimpleNamespace(cache=cache, cache_key_set=SimpleNamespace(
            all_node_ids=lambda: set(keys), get_data_key=keys.get))


@pytest.fixture
def host(monkeypatch):
    """headroom/host/finished.py, on a ComfyUI whose last prompt was "failed"."""
    progress = SimpleNamespace(prompt_id="failed", dynprompt=Prompt())
    queue = SimpleNamespace(get_flags=lambda reset: {})
    return on_comfyui(
        monkeypatch, "node_cache", "finished", execution={},
        comfy_execution__cache_provider={
            "CacheProvider": object, "_serialize_cache_key": "{0[0]}".format,
            "_contains_self_unequal": lambda key: any(one != one for one in key)},
        comfy_execution__graph={"DynamicPrompt": None},
        comfy_execution__progress={"get_progress_state": lambda: progress},
        ours__packs={"cache_sets": None},
        server={"PromptServer": SimpleNamespace(instance=SimpleNamespace(prompt_queue=queue))})


def entry(text):
    return SimpleNamespace(outputs=[[text]], ui=None)


def test_turns_are_listed_under_nodes_that_the_next_server_can_ask_for(host, monkeypatch):
    keys = {"load": ("load",), "start.0.0_sample": ("s0",), "start.0.1_sample": ("s1",),
            "start.0.1_decode": ("d1",), "start.0.0_new": ("n0", NAN)}
    held = [Caches(keys, {key: entry(key[0]) for key in keys.values() if key[0] != "s1"})]
    monkeypatch.setattr(sys.modules[f"{host.__package__}.node_cache"], "cache_sets", lambda: held)
    assert list(host.turn_values("failed", {"sample", "new"})) == [("s0", [["s0"]], None)]
    assert list(host.turn_values("another", {"sample"})) == []
    held.clear()
    assert list(host.turn_values("failed", {"sample"})) == []
