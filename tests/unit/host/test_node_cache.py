"""Results of loops in ComfyUI's node cache, read from stand-ins of its modules."""

import importlib
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest

NAN = float("nan")


class Prompt:
    def get_parent_node_id(self, node_id):
        return "start" if "." in node_id else None

    def get_display_node_id(self, node_id):
        return node_id.rpartition("_")[2]


class Keys:
    def __init__(self, keys):
        self.all_node_ids, self.get_data_key = lambda: set(keys), keys.get


class Caches:
    def __init__(self, keys, cache):
        self.outputs = SimpleNamespace(cache=cache, cache_key_set=Keys(keys))


@pytest.fixture
def host(monkeypatch):
    """headroom/host/finished.py, on a ComfyUI whose last prompt was "failed"."""
    provider = ModuleType("comfy_execution.cache_provider")
    provider.CacheProvider = object
    provider._serialize_cache_key = "{0[0]}".format
    provider._contains_self_unequal = lambda key: any(one != one for one in key)
    progress = SimpleNamespace(prompt_id="failed", dynprompt=Prompt())
    queue = SimpleNamespace(get_flags=lambda reset: {})
    modules = {
        "execution": {}, "comfy_execution": {"cache_provider": provider},
        "comfy_execution.graph": {"DynamicPrompt": None},
        "comfy_execution.progress": {"get_progress_state": lambda: progress},
        "server": {"PromptServer": SimpleNamespace(
            instance=SimpleNamespace(prompt_queue=queue))},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("node_cache", "finished"):
        monkeypatch.delitem(sys.modules, f"headroom.host.{name}", raising=False)
    found = importlib.import_module("headroom.host.finished")
    yield found
    for name in ("node_cache", "finished"):
        sys.modules.pop(f"headroom.host.{name}", None)


def entry(text):
    return SimpleNamespace(outputs=[[text]], ui=None)


def test_turns_are_listed_under_nodes_that_the_next_server_can_ask_for(host):
    keys = {"load": ("load",), "start.0.0_sample": ("s0",), "start.0.1_sample": ("s1",),
            "start.0.1_decode": ("d1",), "start.0.0_new": ("n0", NAN)}
    caches = Caches(keys, {key: entry(key[0]) for key in keys.values() if key[0] != "s1"})
    held = weakref.ref(caches)
    assert list(host.turn_values(held, "failed", {"sample", "new"})) == [("s0", [["s0"]], None)]
    assert list(host.turn_values(held, "another", {"sample"})) == []
    assert list(host.turn_values(None, "failed", {"sample"})) == []
    del caches
    assert list(host.turn_values(held, "failed", {"sample"})) == []
