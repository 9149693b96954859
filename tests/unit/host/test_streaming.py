"""Streamed weights: buffers are made before a step where needed; half-made casts are discarded."""

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

import headroom.host

GPU = torch.device("cuda", 0)
MIB = 1 << 20


class Buffer:
    """A buffer of the pager."""

    def __init__(self):
        self.asked = []

    def get(self, size):
        self.asked.append(size)


@pytest.fixture
def mm(monkeypatch):
    """ComfyUI's memory management: two streams, and a buffer for both."""
    module = ModuleType("comfy.model_management")
    module.buffer = Buffer()
    module.NUM_STREAMS = 2
    module.get_offload_stream = lambda device: "stream"
    module.get_aimdo_cast_buffer = lambda stream, device: module.buffer
    comfy = ModuleType("comfy")
    comfy.model_management = module
    monkeypatch.setitem(sys.modules, "comfy", comfy)
    monkeypatch.setitem(sys.modules, "comfy.model_management", module)
    return module


@pytest.fixture
def streaming(monkeypatch, mm):
    """Our module in that ComfyUI, on a device with 100 MiB of room; `emptied`: its cache."""
    core = ModuleType("headroom.host.core")
    core.is_dynamic = lambda patcher: patcher.dynamic
    core.available_bytes = lambda device: 60 * MIB
    core.dynamic_bytes = lambda device: 40 * MIB
    core.emptied = []
    core.empty_cache = lambda: core.emptied.append(True)
    monkeypatch.setitem(sys.modules, "headroom.host.core", core)
    monkeypatch.setattr(headroom.host, "core", core, raising=False)
    monkeypatch.delitem(sys.modules, "headroom.host.streaming", raising=False)
    module = importlib.import_module("headroom.host.streaming")
    yield module
    sys.modules.pop("headroom.host.streaming", None)
    del headroom.host.streaming


def patcher(mib, model=None, dynamic=True):
    layer = torch.nn.Linear(1024, 5120, bias=False)  # 20 MiB
    layer.comfy_cast_weights = True
    return SimpleNamespace(model=model or torch.nn.Sequential(layer), load_device=GPU,
                           dynamic=dynamic, model_size=lambda: mib * MIB)


def test_where_weights_are_streamed_the_buffers_get_their_size_from_an_empty_cache(streaming, mm):
    streaming.make_buffers([patcher(200)])
    assert mm.buffer.asked == [32 * MIB] and streaming.host.emptied == [True]  # in whole steps


def test_where_the_weights_have_room_no_layer_is_looked_at(streaming, mm):
    def modules():
        raise AssertionError("a look at every layer, in each step")

    streaming.make_buffers([patcher(100, SimpleNamespace(modules=modules))])
    assert mm.buffer.asked == [] and streaming.host.emptied == []


@pytest.mark.parametrize("gone", ["get_offload_stream", "get_aimdo_cast_buffer"])
def test_a_host_that_keeps_its_buffers_otherwise_is_left_alone(streaming, mm, gone):
    delattr(mm, gone)
    streaming.make_buffers([patcher(200)])
    assert mm.buffer.asked == []


def test_a_model_that_the_pager_does_not_stream_has_no_buffers_of_its(streaming, mm):
    streaming.make_buffers([patcher(200, dynamic=False)])
    assert mm.buffer.asked == []


SIGNATURE = object()


def begun(layer, signature=None, resident=False, known=None):
    """Leave on `layer` what ComfyUI leaves there when its cast stops."""
    layer._prefetch = {"signature": signature, "resident": resident}
    layer._v_signature = known
    return layer


@pytest.fixture
def layers():
    return torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))


def test_only_layers_whose_cast_has_begun_are_found(streaming, layers):
    begun(layers[1])
    assert streaming.half_cast([SimpleNamespace(model=layers)]) == [layers[1]]


@pytest.fixture
def loaded(streaming, layers, monkeypatch):
    """These layers are those of a dynamic model that is loaded."""
    monkeypatch.setattr(streaming, "_dynamic", lambda: [SimpleNamespace(model=layers)])
    return layers


def test_comfyuis_own_function_removes_what_the_cast_left(streaming, loaded, monkeypatch):
    called = []
    module = ModuleType("comfy.model_prefetch")
    module.cleanup_prefetched_modules = lambda owner, found: called.append((owner, found))
    monkeypatch.setitem(sys.modules, "comfy.model_prefetch", module)
    begun(loaded[0])
    streaming.forget_half_casts()
    assert called == [(loaded[0], [loaded[0]])]


def test_a_host_without_such_casts_is_left_alone(streaming, loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "comfy.model_prefetch", None)
    layer = begun(loaded[0], SIGNATURE, known=SIGNATURE)
    before = dict(vars(layer))
    streaming.forget_half_casts()
    assert vars(layer) == before


@pytest.mark.parametrize(("left", "is_half"), [
    ({"signature": SIGNATURE, "known": SIGNATURE}, True),
    ({"signature": SIGNATURE, "known": SIGNATURE, "resident": True}, False),
    ({"signature": SIGNATURE, "known": None}, False),
    ({"signature": None, "known": None}, False),
])
def test_a_page_passes_for_complete_from_its_signature_on(streaming, layers, left, is_half):
    assert streaming.is_incomplete_page(begun(layers[0], **left)) is is_half
