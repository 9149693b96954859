"""Streamed weights: buffers are made before a step where needed; half-made casts are discarded."""

import functools
import sys
from types import SimpleNamespace

import pytest
import torch
from support.comfyui import on_comfyui, stand_in
from support.hosts import MIB, Patcher


@pytest.fixture
def mm(monkeypatch):
    """ComfyUI's memory management: two streams, and a buffer for both, which notes what it gets."""
    asked = []
    buffer = SimpleNamespace(asked=asked, get=asked.append)
    return stand_in(
        monkeypatch, "comfy.model_management", buffer=buffer, NUM_STREAMS=2,
        get_offload_stream=lambda device: "stream",
        get_aimdo_cast_buffer=lambda stream, device: buffer)


@pytest.fixture
def streaming(monkeypatch, mm):
    """Our module in that ComfyUI, on a device with 100 MiB of room; `emptied`: its cache."""
    emptied = []
    return on_comfyui(monkeypatch, "streaming", ours__core={
        "is_dynamic": lambda patcher: patcher.dynamic, "available_bytes": lambda device: 60 * MIB,
        "dynamic_bytes": lambda device: 40 * MIB, "emptied": emptied,
        "empty_cache": lambda: emptied.append(True)})


def patcher(mib, model=None, dynamic=True):
    layer = torch.nn.Linear(1024, 5120, bias=False)  # 20 MiB
    layer.comfy_cast_weights = True
    return Patcher(model or torch.nn.Sequential(layer), "cuda:0", mib * MIB, dynamic=dynamic)


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
    assert streaming.half_cast([Patcher(layers)]) == [layers[1]]


@pytest.fixture
def loaded(streaming, layers, monkeypatch):
    """These layers are those of a dynamic model that is loaded."""
    monkeypatch.setattr(streaming, "_dynamic", lambda: [Patcher(layers)])
    return layers


@pytest.mark.parametrize("clean_up", [
    lambda comfy_modules: [None, *comfy_modules],  # 0.21.0 to 0.32.0
    lambda module, comfy_modules: [module, *comfy_modules],
])
def test_comfyuis_own_function_removes_what_the_cast_left(
    streaming, loaded, monkeypatch, clean_up
):
    called = []

    @functools.wraps(clean_up)
    def noted(*given):
        called.append(clean_up(*given))

    stand_in(monkeypatch, "comfy.model_prefetch", cleanup_prefetched_modules=noted)
    begun(loaded[0])
    streaming.forget_half_casts()
    assert called in ([[None, loaded[0]]], [[loaded[0], loaded[0]]])


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
