"""Which models go to disk when RAM is short, in which order, and how a move can fail."""

from types import SimpleNamespace

import pytest
import torch
from support.hosts import Host, Patcher

from headroom.actions import spare_ram as spare_module
from headroom.actions.mapping import DiskRefused
from headroom.actions.spare_ram import spare_ram
from headroom.base.device import MIB

GIB = 2**30


class Report:
    headline = "moved"


@pytest.fixture
def ram(monkeypatch):
    """RAM of 100 MiB beside the models; a model that is offloaded frees its bytes."""
    state = {"room": 0, "moved": [], "refuses": {}}

    def offload(patcher, scope, to):
        assert (scope, to) == ("this model", "disk")
        if patcher.name in state["refuses"]:
            raise state["refuses"][patcher.name]
        state["moved"].append(patcher.name)
        state["room"] += patcher.model.weight.nbytes
        return Report()

    monkeypatch.setattr(spare_module, "offload", offload)
    monkeypatch.setattr(spare_module, "ram_room_bytes", lambda: state["room"])
    monkeypatch.setattr(spare_module, "is_disk_in_ram", lambda: False)
    return state


def model(mib, name, dynamic=False):
    found = torch.nn.Module()
    found.weight = torch.nn.Parameter(torch.zeros(mib * MIB, dtype=torch.uint8),
                                      requires_grad=False)
    return Patcher(found, name=name, dynamic=dynamic)


def with_host(monkeypatch, *patchers, loaded=()):
    host = Host(*loaded, living=patchers)
    monkeypatch.setattr(spare_module, "current_host", lambda: host)
    monkeypatch.setattr(spare_module, "loaded_bytes", lambda entry: entry.model.loaded)
    return host


def test_where_the_temp_folder_is_in_ram_nothing_is_copied_there(monkeypatch, ram):
    with_host(monkeypatch, model(1, "a"))
    monkeypatch.setattr(spare_module, "is_disk_in_ram", lambda: True)
    spared = spare_ram(4 * MIB, lambda patcher: False)
    assert ram["moved"] == [] and "temp folder is in RAM" in spared.refusal


def test_the_largest_go_first_and_no_more_than_needed(monkeypatch, ram):
    with_host(monkeypatch, model(1, "a"), model(3, "b"), model(2, "c"))
    spared = spare_ram(4 * MIB, lambda patcher: False)
    assert ram["moved"] == ["b", "c"] and spared.count == 2
    assert spared.moved_bytes == 5 * MIB


def test_models_that_the_queue_uses_or_on_the_gpu_or_mapped_by_comfyui_stay(monkeypatch, ram):
    used, loaded, mapped = model(1, "used"), model(1, "loaded"), model(1, "mapped", True)
    loaded.loaded = 1
    with_host(monkeypatch, used, mapped, model(1, "idle"), loaded=[loaded])
    spare_ram(GIB, lambda patcher: patcher is used)
    assert ram["moved"] == ["idle"]


def test_a_model_of_several_patchers_goes_once_and_stays_when_one_of_them_is_used(monkeypatch, ram):
    one, two = model(1, "one"), model(1, "two")
    two.model = one.model
    with_host(monkeypatch, one, two)
    spare_ram(GIB, lambda patcher: patcher is two)
    assert ram["moved"] == []
    spare_ram(GIB, lambda patcher: False)
    assert len(ram["moved"]) == 1


def test_models_of_unknown_use_go_last_and_the_newest_loaded_at_the_end(monkeypatch, ram):
    models = [model(9, "now"), model(5, "before"), model(1, "known"), model(1, "long ago")]
    with_host(monkeypatch, *models[2:], loaded=models[:2])
    spare_ram(ram["room"] + 4 * MIB, lambda patcher: None if patcher.name != "known" else False)
    assert ram["moved"] == ["known", "long ago", "before"]
    spare_ram(GIB, lambda patcher: None)
    assert ram["moved"][-1] == "now"


def test_a_model_that_cannot_be_mapped_is_passed_over_and_a_full_disk_ends_it(monkeypatch, ram):
    with_host(monkeypatch, model(3, "odd"), model(2, "full"), model(1, "last"))
    ram["refuses"] = {"odd": ValueError("odd weights"), "full": DiskRefused("no room on disk")}
    spared = spare_ram(GIB, lambda patcher: False)
    assert ram["moved"] == [] and spared.refusal == "no room on disk"


def test_on_a_device_that_shares_its_memory_with_the_cpu_what_it_holds_is_room_too(
    monkeypatch, ram
):
    loaded, used = model(2, "loaded"), model(1, "used")
    loaded.loaded = used.loaded = 1
    with_host(monkeypatch, loaded=[loaded, used])
    monkeypatch.setattr(spare_module, "shares_ram", lambda device: True)
    spare_ram(GIB, lambda patcher: patcher is used)
    assert ram["moved"] == ["loaded"]


def test_a_model_is_used_when_a_prompt_of_the_queue_names_its_file(monkeypatch, tmp_path):
    named, other = tmp_path / "named.safetensors", tmp_path / "other.safetensors"
    with_host(monkeypatch).files = {"one": [named], "two": [other]}
    files, asked = {"named.safetensors": [named]}, []
    monkeypatch.setattr(spare_module, "host_registry", lambda: SimpleNamespace(
        files_named=lambda name: asked.append(name) or files.get(name, [])))
    is_used = spare_module.used_by([
        {"1": {"class_type": "Load", "inputs": {"name": "named.safetensors"}}, "2": "no node"}
    ] * 1000)
    assert [is_used(name) for name in ("one", "two", "unknown")] == [True, False, None]
    assert asked == ["named.safetensors"]  # a search in all models folders
    assert not spare_module.used_by([])("unknown")
