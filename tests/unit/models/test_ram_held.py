"""Each storage in RAM counts once, for the variable or the node of a pack that holds it."""

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from support.comfyui import stand_in
from support.hosts import Host, Patcher
from support.quantised import quantised

from headroom.base.device import MIB
from headroom.base.ram import python_heap_bytes
from headroom.measure.snapshot import Snapshot
from headroom.models import ram_held as held


def mib(count):
    return torch.zeros(count * MIB, dtype=torch.uint8)


@pytest.fixture
def pack(monkeypatch):
    """A pack with a list in its module, a class with a list, and a node."""
    module = ModuleType("leaky_pack.nodes")

    class VideoNode:
        shared = []

        def __init__(self):
            self.frames = []

    VideoNode.__module__ = module.__name__
    module.kept, module.VideoNode, module.node = [], VideoNode, VideoNode()
    module.cached = None
    stand_in(monkeypatch, "headroom.host.packs",
             pack_modules=lambda: {"leaky": [module]}, node_objects=lambda: [module.node],
             cached_results=lambda: [("7", "VAEDecode", module.cached)])
    monkeypatch.setattr(held, "current_host", Host)
    monkeypatch.setattr(held, "lost", lambda _: False)
    return module


def parts():
    return held.ram_held(Snapshot((), 4000 * MIB, 0))


def test_tensors_arrays_and_bytes_of_a_pack_are_named_with_who_holds_them(pack):
    pack.kept += [mib(50), np.zeros((40, MIB), np.uint8)[1:], b"x" * (10 * MIB)]
    pack.node.frames += [mib(30)[MIB:], mib(20).numpy()]
    pack.VideoNode.shared += [mib(5)]
    assert parts()["packs"] == [
        {"pack": "leaky", "holder": "nodes.kept", "mib": 100.0},
        {"pack": "leaky", "holder": "VideoNode", "mib": 50.0},
        {"pack": "leaky", "holder": "nodes.VideoNode", "mib": 5.0}]


def test_a_storage_in_the_cache_and_in_a_pack_counts_once_for_the_node(pack):
    pack.cached = [[mib(60)]]
    pack.kept.append(pack.cached[0][0][MIB:])
    found = parts()
    assert found["cached"] == [{"node_id": "7", "class_type": "VAEDecode", "mib": 60.0}]
    assert found["packs"] == []


def test_a_tensor_that_nobody_named_holds_is_counted_apart_and_the_rest_is_what_is_left(pack):
    before = parts()
    tensor = mib(70)
    after = parts()
    assert after["other_tensors_mib"] - before["other_tensors_mib"] == pytest.approx(70, abs=1)
    assert before["rest_mib"] - after["rest_mib"] == pytest.approx(70, abs=8)
    del tensor


def test_a_tensor_that_the_collector_is_just_clearing_is_left_out(pack):
    class Cleared(torch.Tensor):
        @property
        def device(self):
            raise RuntimeError("tensor does not have a device")

    pack.kept.append(torch.zeros(70 * MIB, dtype=torch.uint8).as_subclass(Cleared))
    assert parts()["packs"] == []


@pytest.mark.skipif(sys.platform == "win32", reason="not told there")
def test_small_objects_of_python_count_apart_from_the_rest(pack):
    full, filling = python_heap_bytes(), []
    while python_heap_bytes() == full:  # what earlier tests have freed there is used first
        filling.append([object() for _ in range(100_000)])
    before = parts()
    things = [object() for _ in range(2_000_000)]
    grown = parts()["python_heap_mib"] - before["python_heap_mib"]
    assert grown == pytest.approx(len(things) * 16 / MIB, abs=6)
    assert before["python_heap_mib"] + before["rest_mib"] <= 4000


def test_what_a_pack_maps_from_a_file_is_not_called_its_ram(pack, tmp_path):
    """As safetensors loads: the system drops these pages when others need RAM."""
    if sys.platform != "linux":
        pytest.skip("only Linux lists what is mapped")
    (tmp_path / "model").write_bytes(bytes(30 * MIB))
    before = parts()
    pack.kept.append(torch.from_file(str(tmp_path / "model"), size=30 * MIB, dtype=torch.uint8))
    pack.kept.append(np.memmap(tmp_path / "model", mode="r"))
    after = parts()
    assert after["packs"] == []
    assert after["other_tensors_mib"] == pytest.approx(before["other_tensors_mib"], abs=8)


def test_a_mapping_that_loads_what_it_lists_is_looked_at_as_it_is(pack):
    """transformers' mappings of all models: `values()` imports every one, or raises."""
    class Lazy(dict):
        def values(self):
            raise ImportError("every model is imported")

    class Lines(list):
        def __iter__(self):
            raise OSError("a file is read")

    pack.kept += [Lazy(one=mib(4)), Lines([mib(5)])]
    assert parts()["packs"] == [{"pack": "leaky", "holder": "nodes.kept", "mib": 9.0}]


def test_weights_in_a_mapped_file_count_apart_from_those_in_ram(pack, tmp_path, monkeypatch):
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux lists what is mapped")
    (tmp_path / "weights").write_bytes(bytes(8 * MIB))
    model = torch.nn.Module()
    model.register_buffer("mapped", torch.from_file(
        str(tmp_path / "weights"), shared=False, size=8 * MIB, dtype=torch.uint8))
    model.register_buffer("own", mib(4))
    patcher = Patcher(model)
    patcher.pinned = {"own"}
    monkeypatch.setattr(held, "current_host", lambda: Host(living=[patcher, patcher]))
    (found,) = parts()["models"]
    assert (found["mib"], found["mapped_mib"], found["pinned_mib"]) == (4.0, 8.0, 4.0)


def test_the_memory_of_quantised_weights_is_that_of_their_model(pack, monkeypatch):
    model = torch.nn.Linear(1024, 1024, bias=False)
    model.weight = torch.nn.Parameter(quantised(model.weight), requires_grad=False)
    monkeypatch.setattr(held, "current_host", lambda: Host(living=[Patcher(model)]))
    (found,) = parts()["models"]
    assert found["mib"] == pytest.approx(1 + 4 / 1024, abs=0.001)


def test_the_copy_that_a_dynamic_model_keeps_for_hooks_is_a_model_too(pack, monkeypatch):
    kept = torch.nn.Linear(1024, 1024, bias=False)
    patcher = Patcher(torch.nn.Identity())
    patcher.non_dynamic_delegate_model = (kept, ())
    monkeypatch.setattr(held, "current_host", lambda: Host(living=[patcher]))
    (found,) = parts()["models"]
    assert (found["class"], found["mib"]) == ("Linear", 4.0)


def test_where_the_kernel_tells_nothing_the_figures_are_null_and_not_zero(tmp_path):
    assert held._resident_files(tmp_path) is None and held._file_ranges(tmp_path) == []
    assert held.ram_pressure(tmp_path) is None
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/pressure/memory").write_text("some avg10=12.50 avg60=1.00 total=9\n")
    assert held.ram_pressure(tmp_path) == 12.5
