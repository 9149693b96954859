"""Windows, macOS, cards of AMD and Apple: systems without a function that the pack calls."""

import ntpath
import posixpath
import sys
from types import SimpleNamespace

import pytest
import torch
from support.systems import MIB, Card

from headroom import offload, purge, to_cpu
from headroom.advise import from_run
from headroom.base import ram
from headroom.base.inputs import attribute
from headroom.base.prompt_node import name_below
from headroom.measure import snapshot
from headroom.measure.nvml import card_memory


@pytest.mark.parametrize(("paths", "name", "below"), [
    (ntpath, r"D:\models\a.safetensors", r"models\a.safetensors"),
    (ntpath, "D:/models/a.safetensors", r"models\a.safetensors"),
    (ntpath, r"C:..\..\a.ckpt", "a.ckpt"),
    (ntpath, r"d:c:\a.ckpt", "a.ckpt"),
    (ntpath, r"\\server\share\models\a.ckpt", r"models\a.ckpt"),
    (ntpath, r"sd\..\..\a.ckpt", "a.ckpt"),
    (ntpath, r"sd\a.ckpt", r"sd\a.ckpt"),
    (posixpath, "/models/a.ckpt", "models/a.ckpt"),
    (posixpath, "//models/../../a.ckpt", "a.ckpt"),
    (posixpath, "sd/a.ckpt", "sd/a.ckpt"),
    (posixpath, "D:\\a.ckpt", "D:\\a.ckpt"),
])
def test_a_name_on_any_drive_stays_below_the_folder_of_models(paths, name, below):
    assert name_below(name, paths) == below


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_a_system_without_malloc_trim_says_so(monkeypatch, platform):
    monkeypatch.setattr(ram, "sys", SimpleNamespace(platform=platform))
    assert "this system has no safe call for it" in ram.trim_heap()


def test_without_anonymous_mappings_values_still_move(monkeypatch):
    monkeypatch.delattr("mmap.MAP_ANONYMOUS")
    model = torch.nn.Linear(512, 512)
    kept = model.weight.detach().clone()
    text = offload(model, to="disk").text
    assert "1.0 MiB mapped from a new scratch file" in text and torch.equal(model.weight, kept)
    assert torch.equal(to_cpu(kept).value, kept)


class Raises:
    @property
    def model(self):
        raise RuntimeError("not here")


def test_with_a_torch_older_than_2_5_an_attribute_that_raises_is_none(monkeypatch):
    # That of DirectML is 2.4.1.
    monkeypatch.delattr(torch, "OutOfMemoryError")
    assert attribute(Raises(), "model") is None
    with pytest.raises(ValueError, match="expects a model"):
        offload(Raises())


@pytest.mark.parametrize(("platform", "hip", "pager", "can"), [
    ("linux", None, False, True), ("win32", None, False, False), ("linux", "7.2", False, False),
    ("linux", None, True, False)])
def test_expandable_segments_are_advised_only_where_torch_has_them_and_the_pager_sees_them(
    monkeypatch, platform, hip, pager, can
):
    host = SimpleNamespace(has_dynamic_vram=lambda: pager)
    monkeypatch.setattr(from_run, "current_host", lambda: host)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")
    monkeypatch.setattr(from_run, "is_started", lambda kind: True)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert from_run.allocator()["can_expand"] is can


def test_a_card_of_amd_has_its_name_its_arithmetic_and_its_own_variable(monkeypatch):
    card = Card(monkeypatch, "rocm")
    monkeypatch.setenv("PYTORCH_HIP_ALLOC_CONF", "garbage_collection_threshold:0.8")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "AMD Radeon RX 7900 XTX")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert "cuda:0 (AMD Radeon RX 7900 XTX)" in purge().text
    assert from_run.allocator()["threshold"] and from_run.computes_in_bf16()
    assert card_memory(card.device) is None


def test_the_memory_that_a_mac_shares_is_told_as_its_gpu_may_use_it(monkeypatch):
    Card(monkeypatch, "mps", reserved=1500)
    (told,) = snapshot.snapshot().devices
    assert (told.total_bytes, told.driver_free_bytes) == (8000 * MIB, 6500 * MIB)
    assert told.used_bytes == told.held_bytes == 1500 * MIB and told.other_bytes == 0


def test_a_driver_older_than_torch_leaves_no_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # with a warning of torch's own
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert snapshot.snapshot().devices == () and from_run.allocator() == {}
