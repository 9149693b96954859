"""Weights move to a mapped file and back without changing a bit, or they stay as they were."""

import gc
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import headroom.actions.mapping as mapping
from headroom.actions.mapping import check_mappable, map_modules
from headroom.base.ram import trim_heap
from headroom.base.safetensors_file import read_slots
from headroom.measure.snapshot import rss_bytes

MIB = 1024 * 1024


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(512, 64)
        self.head = torch.nn.Linear(64, 512, bias=False)
        self.head.weight = self.embed.weight
        self.narrow = torch.nn.Parameter(torch.randn(64, 128).to(torch.bfloat16))
        self.turned = torch.nn.Parameter(torch.randn(128, 64).t())
        self.register_buffer("steps", torch.arange(4096))


def state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def assert_same(module, expected):
    for name, tensor in module.state_dict().items():
        assert tensor.dtype == expected[name].dtype and torch.equal(tensor, expected[name]), name


def test_mapped_weights_are_bit_identical_and_keep_ties_strides_and_dtypes(tmp_path):
    torch.manual_seed(0)
    module = Tied()
    expected, stride = state(module), module.turned.stride()
    mapped = map_modules([module], tmp_path)
    assert_same(module, expected)
    assert module.turned.stride() == stride
    assert module.head.weight.data_ptr() == module.embed.weight.data_ptr()
    assert mapped.own_bytes == 0 and mapped.scratch_bytes > 0


def test_the_scratch_file_is_a_valid_safetensors_file_and_goes_with_the_module(tmp_path):
    module = Tied()
    path = map_modules([module], tmp_path).scratch_path
    with safe_open(path, framework="pt") as file:
        assert "embed.weight" in file.keys()  # noqa: SIM118
    del module
    gc.collect()
    assert not path.exists()


def test_rss_falls_by_the_size_of_the_model_within_five_percent(tmp_path):
    module = torch.nn.ModuleList([torch.nn.Linear(1024, 1024) for _ in range(48)])
    size = sum(p.nbytes for p in module.parameters())
    gc.collect()
    trim_heap()
    before = rss_bytes()
    map_modules([module], tmp_path)
    trim_heap()
    assert before - rss_bytes() == pytest.approx(size, rel=0.05)


def test_unchanged_weights_are_mapped_from_the_models_own_file(tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    own = tmp_path / "model.safetensors"
    save_file({f"model.{name}": t for name, t in module.state_dict().items()}, own)
    with torch.no_grad():
        module[1].weight.add_(1)
    expected = state(module)
    mapped = map_modules([module], tmp_path, [own])
    assert_same(module, expected)
    assert mapped.own_bytes == module[0].weight.nbytes
    assert mapped.scratch_bytes == module[1].weight.nbytes


@pytest.mark.parametrize("changed", [None, 0, 4096, 4098])
def test_weights_that_differ_in_one_byte_are_not_taken_from_the_file(tmp_path, changed):
    module = torch.nn.Module()
    module.register_buffer("table", torch.arange(4099, dtype=torch.int32).to(torch.uint8))
    own = tmp_path / "model.safetensors"
    save_file({"table": module.table.clone()}, own)
    if changed is not None:
        module.table[changed] += 1
    expected = state(module)
    mapped = map_modules([module], tmp_path, [own])
    assert mapped.own_bytes == (4099 if changed is None else 0)
    assert_same(module, expected)


def test_writing_to_a_mapped_weight_never_changes_the_file(tmp_path):
    module = torch.nn.Linear(64, 64, bias=False)
    own = tmp_path / "model.safetensors"
    save_file(module.state_dict(), own)
    content = own.read_bytes()
    map_modules([module], tmp_path, [own])
    with torch.no_grad():
        module.weight.zero_()
    assert own.read_bytes() == content
    assert not module.weight.any()


@pytest.mark.parametrize("inference", [True, False])
def test_it_works_inside_and_outside_inference_mode(tmp_path, inference):
    with torch.inference_mode():
        module = torch.nn.Linear(64, 64)
        expected = state(module)
    with torch.inference_mode(inference):
        map_modules([module], tmp_path)
        assert_same(module, expected)


@pytest.mark.parametrize("made", [True, False], ids=["made in inference", "made outside"])
@pytest.mark.parametrize("mapped", [True, False], ids=["mapped in inference", "mapped outside"])
@pytest.mark.parametrize("used", [True, False], ids=["used in inference", "used outside"])
def test_a_mapped_weight_is_usable_in_the_mode_that_it_was_usable_in(tmp_path, made, mapped, used):
    with torch.inference_mode(made):
        module = torch.nn.Embedding(64, 64).requires_grad_(False)
    rows = torch.tensor([3, 5])
    with torch.inference_mode(used):
        expected = module(rows)
    with torch.inference_mode(mapped):
        map_modules([module], tmp_path)
    with torch.inference_mode(used):
        assert torch.equal(module(rows), expected)
    assert module.weight.is_inference() is made


def test_a_full_disk_leaves_the_weights_in_ram_and_no_file_behind(tmp_path, monkeypatch):
    def full(path, storages):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    module = torch.nn.Linear(64, 64)
    expected, address = state(module), module.weight.data_ptr()
    monkeypatch.setattr(mapping, "write_storages", full)
    with pytest.raises(OSError, match="No space left on device.*nothing is lost"):
        map_modules([module], tmp_path)
    assert_same(module, expected)
    assert module.weight.data_ptr() == address and list(tmp_path.iterdir()) == []


def test_too_little_room_is_said_before_anything_moves(tmp_path, monkeypatch):
    usage = mapping.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(mapping.shutil, "disk_usage", lambda _: usage._replace(free=1))
    with pytest.raises(OSError, match="only 0.0 MiB are free"):
        check_mappable([torch.nn.Linear(64, 64)], tmp_path)


def test_a_weight_of_another_class_is_refused_by_name(tmp_path):
    class Quantised(torch.Tensor):
        pass

    module = torch.nn.Linear(4, 4)
    module.weight = torch.nn.Parameter(torch.zeros(4, 4).as_subclass(Quantised))
    with pytest.raises(ValueError, match="weight is a Quantised"):
        check_mappable([module], tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"\x10\0\0\0\0\0\0\0not json at all.")
    with pytest.raises(ValueError, match="broken.safetensors is damaged"):
        read_slots(Path(path))
