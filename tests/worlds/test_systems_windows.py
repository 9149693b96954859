"""Windows and macOS, as far as they differ in what this pack asks of a system."""

import ntpath
import posixpath
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from headroom.advise import surroundings
from headroom.base import ram
from headroom.base.named_files import name_below
from headroom.measure import snapshot


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


def test_without_statm_psutil_tells_the_ram_of_this_process(monkeypatch):
    monkeypatch.setattr(snapshot, "Path", lambda name: Path("/nowhere") / name)
    snapshot._read_rss.cache_clear()
    assert snapshot.rss_bytes() > 1 << 20
    snapshot._read_rss.cache_clear()


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_a_system_without_malloc_trim_says_so(monkeypatch, platform):
    monkeypatch.setattr(ram, "sys", SimpleNamespace(platform=platform))
    assert "this system has no safe call for it" in ram.trim_heap()


@pytest.mark.parametrize(("platform", "hip", "can"), [
    ("linux", None, True), ("win32", None, False), ("linux", "7.2", False)])
def test_expandable_segments_are_advised_only_where_torch_has_them(monkeypatch, platform, hip, can):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")
    monkeypatch.setattr(surroundings, "is_started", lambda kind: True)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert surroundings.allocator()["can_expand"] is can


def test_a_driver_older_than_torch_leaves_no_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # with a warning of torch's own
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert snapshot.snapshot().devices == () and surroundings.allocator() == {}
