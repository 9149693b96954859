"""If memory ran out while a layer was cast, the next call casts the layer again."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from headroom.guard import attempt
from headroom.guard.attempt import Failure
from headroom.host.half_cast import forget, half_cast, is_incomplete_page

SIGNATURE = object()


def begun(layer, signature=None, resident=False, known=None):
    """Leave on `layer` what ComfyUI leaves there when its cast stops."""
    layer._prefetch = {"signature": signature, "resident": resident}
    layer._v_signature = known
    return layer


@pytest.fixture
def layers():
    return torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))


def test_only_layers_whose_cast_has_begun_are_found(layers):
    begun(layers[1])
    assert half_cast([SimpleNamespace(model=layers)]) == [layers[1]]


def test_comfyuis_own_function_removes_what_the_cast_left(layers, monkeypatch):
    called = []
    module = ModuleType("comfy.model_prefetch")
    module.cleanup_prefetched_modules = lambda owner, found: called.append((owner, found))
    monkeypatch.setitem(sys.modules, "comfy", ModuleType("comfy"))
    monkeypatch.setitem(sys.modules, "comfy.model_prefetch", module)
    forget([begun(layers[0])])
    assert called == [(layers[0], [layers[0]])]


def test_a_host_without_such_casts_is_left_alone(layers, monkeypatch):
    monkeypatch.setitem(sys.modules, "comfy", ModuleType("comfy"))
    monkeypatch.setitem(sys.modules, "comfy.model_prefetch", None)
    layer = begun(layers[0], SIGNATURE, known=SIGNATURE)
    before = dict(vars(layer))
    forget([layer])
    assert vars(layer) == before


@pytest.mark.parametrize(("left", "is_half"), [
    ({"signature": SIGNATURE, "known": SIGNATURE}, True),
    ({"signature": SIGNATURE, "known": SIGNATURE, "resident": True}, False),
    ({"signature": SIGNATURE, "known": None}, False),
    ({"signature": None, "known": None}, False),
])
def test_a_page_passes_for_complete_from_its_signature_on(layers, left, is_half):
    assert is_incomplete_page(begun(layers[0], **left)) is is_half


def test_a_failure_that_left_such_a_page_has_its_model_loaded_anew(monkeypatch):
    host = SimpleNamespace(buffers_bytes=lambda: 0, has_half_pages=lambda: True)
    monkeypatch.setattr(attempt, "guard_host", lambda: host)
    assert Failure.of(torch.OutOfMemoryError("CUDA out of memory")).is_incomplete
    host.has_half_pages = lambda: False
    assert not Failure.of(torch.OutOfMemoryError("CUDA out of memory")).is_incomplete
