"""RAM that ComfyUI frees by functions of its own, on a stand-in of it."""

import importlib
import sys
from types import ModuleType

import pytest


@pytest.fixture
def asked(monkeypatch):
    """headroom/host/spare.py in a container of which 500 bytes are left, and what it asks for."""
    bytes_asked = []
    parts = {"comfy": {}, "headroom.host.features": {"lost": lambda feature: None},
             "comfy.model_management": {"get_free_memory": lambda device: 500},
             "comfy.memory_management": {"extra_ram_release": bytes_asked.append}}
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["comfy"].model_management = sys.modules["comfy.model_management"]
    monkeypatch.delitem(sys.modules, "headroom.host.spare", raising=False)
    importlib.import_module("headroom.host.spare").release_cached_results(300)
    yield bytes_asked
    del sys.modules["headroom.host.spare"]


def test_comfyuis_cache_drops_no_more_than_is_asked_where_it_counts_within_a_container(asked):
    """By the RAM of the whole machine it would drop all that it has."""
    assert asked == [800]
