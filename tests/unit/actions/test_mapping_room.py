"""Weights that cannot be mapped (no room, no folder, no plain weights) stay as they were."""

import shutil

import pytest
import torch
from support.blocks import state
from support.mapped import assert_same, open_files

import headroom.actions.mapping as mapping
from headroom.actions.mapping import DiskRefused, check_mappable, map_modules
from headroom.base import private_file


@pytest.mark.parametrize("where", ["write", "fsync"])
def test_a_full_disk_leaves_the_weights_in_ram_and_no_file_behind(tmp_path, monkeypatch, where):
    def full(*_):
        raise OSError(28, "No space left on device")

    module = torch.nn.Linear(64, 64)
    expected, address = state(module), module.weight.data_ptr()
    check_mappable([module], tmp_path)
    if where == "write":
        monkeypatch.setattr(private_file, "_append", full)
    else:
        monkeypatch.setattr(private_file.os, "fsync", full)
    with pytest.raises(DiskRefused, match="No space left on device.*nothing is lost"):
        map_modules([module], tmp_path)
    assert_same(module, expected)
    assert module.weight.data_ptr() == address and open_files(tmp_path) == []


def with_free(monkeypatch, folder, free):
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(mapping.shutil, "disk_usage", lambda _: usage._replace(free=free))


@pytest.mark.parametrize(("free", "told"), [(1, "0.0"), (200 << 20, "200.0")])
def test_too_little_room_for_it_and_other_files_is_said_before_anything_moves(
    tmp_path, monkeypatch, free, told
):
    with_free(monkeypatch, tmp_path, free)
    with pytest.raises(DiskRefused, match=f"only {told} MiB are free there: make room or choose"):
        check_mappable([torch.nn.Linear(64, 64)], tmp_path)


@pytest.mark.parametrize("why", ["mapped already", "written earlier"])
def test_an_unchanged_model_needs_no_free_disk(tmp_path, monkeypatch, why):
    module = torch.nn.Linear(64, 64, bias=False)
    map_modules([module], tmp_path)
    if why == "written earlier":
        module.weight.data = module.weight.data.clone()
    with_free(monkeypatch, tmp_path, 1)
    check_mappable([module], tmp_path)
    assert map_modules([module], tmp_path).written_bytes == 0


def test_the_file_of_changed_weights_does_not_count_as_free_disk(tmp_path, monkeypatch):
    module = torch.nn.Linear(64, 64, bias=False)
    map_modules([module], tmp_path)
    module.weight.data = torch.ones(64, 64)
    expected = state(module)
    with_free(monkeypatch, tmp_path, 1)
    with pytest.raises(DiskRefused, match="only 0.0 MiB are free there"):
        map_modules([module], tmp_path)
    assert_same(module, expected)


def test_a_folder_that_cannot_be_written_gets_the_same_advice(tmp_path):
    with pytest.raises(DiskRefused, match="No such file.*make it writable, or choose to = 'CPU'"):
        check_mappable([torch.nn.Linear(64, 64)], tmp_path / "not there")


def test_a_weight_of_a_class_other_than_torchs_is_refused_by_name(tmp_path):
    class Quantised(torch.Tensor):
        pass

    module = torch.nn.Linear(4, 4)
    module.weight = torch.nn.Parameter(torch.zeros(4, 4).as_subclass(Quantised))
    with pytest.raises(ValueError, match="weight is a Quantised"):
        check_mappable([module], tmp_path)
