"""Weights move to a mapped file and back without changing a bit, or they stay as they were."""

import gc

import pytest
import torch
from support.blocks import state
from support.mapped import assert_same, open_files
from support.quantised import quantised

from headroom.actions.mapping import Mapped, map_modules
from headroom.base.private_file import CHUNK_BYTES
from headroom.base.ram import trim_heap
from headroom.measure.snapshot import rss_bytes

SIZE = CHUNK_BYTES + 4099  # more than is compared at once, and no multiple of eight


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(512, 64)
        self.head = torch.nn.Linear(64, 512, bias=False)
        self.head.weight = self.embed.weight
        self.narrow = torch.nn.Parameter(torch.randn(64, 128).to(torch.bfloat16))
        self.turned = torch.nn.Parameter(torch.randn(128, 64).t())
        self.register_buffer("steps", torch.arange(4096))


def test_mapped_weights_are_bit_identical_and_keep_ties_strides_and_dtypes(tmp_path):
    torch.manual_seed(0)
    module = Tied()
    expected, stride = state(module), module.turned.stride()
    mapped = map_modules([module], tmp_path)
    assert_same(module, expected)
    assert module.turned.stride() == stride
    assert module.head.weight.data_ptr() == module.embed.weight.data_ptr()
    once = {tensor.data_ptr(): tensor for tensor in module.state_dict().values()}
    assert mapped == Mapped(0, 0, written_bytes=sum(t.nbytes for t in once.values()))


def test_a_quantised_weight_is_mapped_with_its_scales(tmp_path):
    weight = quantised(torch.randn(2048, 64))
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    inner = module.weight._qdata, module.weight._params.scale
    expected = [part.clone() for part in inner]
    size = 2048 * 64 + 2048 * 4
    assert map_modules([module], tmp_path) == Mapped(0, 0, written_bytes=size)
    assert map_modules([module], tmp_path) == Mapped(before_bytes=size, earlier_bytes=0,
                                                     written_bytes=0)
    assert all(map(torch.equal, (one.view(torch.uint8) for one in inner),
                   (one.view(torch.uint8) for one in expected)))


def test_rss_falls_by_the_size_of_the_model_within_five_percent(tmp_path):
    module = torch.nn.ModuleList([torch.nn.Linear(1024, 1024) for _ in range(48)])
    size = sum(p.nbytes for p in module.parameters())
    gc.collect()
    trim_heap()
    before = rss_bytes()
    map_modules([module], tmp_path)
    trim_heap()
    assert before - rss_bytes() == pytest.approx(size, rel=0.05)


@pytest.mark.parametrize("changed", [None, 0, 4096, 4098, CHUNK_BYTES, SIZE - 1])
def test_only_weights_that_differ_in_a_byte_are_written_again(tmp_path, changed):
    module = torch.nn.Module()
    module.register_buffer("table", torch.arange(SIZE, dtype=torch.int32).to(torch.uint8))
    module.register_buffer("other", torch.zeros(4096, dtype=torch.uint8))
    map_modules([module], tmp_path)
    for name in ("table", "other"):
        setattr(module, name, getattr(module, name).clone())
    if changed is not None:
        module.table[changed] += 1
    expected = state(module)
    mapped = map_modules([module], tmp_path)
    written = 0 if changed is None else SIZE
    assert mapped == Mapped(0, SIZE + 4096 - written, written)
    assert_same(module, expected)


def test_no_file_that_others_can_reach_is_behind_a_mapped_weight(tmp_path):
    module = torch.nn.Linear(64, 64)
    map_modules([module], tmp_path)
    assert list(tmp_path.iterdir()) == []
    (path,) = open_files(tmp_path)
    assert path.endswith("(deleted)")


def test_changed_weights_replace_the_scratch_file(tmp_path):
    module = torch.nn.Linear(1024, 1024, bias=False)
    for value in range(3):
        module.weight.data = torch.full_like(module.weight.data.clone(), value)
        expected = state(module)
        assert map_modules([module], tmp_path).written_bytes == module.weight.nbytes
        assert_same(module, expected)
        assert len(open_files(tmp_path)) == 1


def test_a_write_into_a_mapped_weight_does_not_change_the_kept_file(tmp_path):
    module = torch.nn.Linear(64, 64, bias=False)
    expected = state(module)
    map_modules([module], tmp_path)
    mapped_weight = module.weight.data
    mapped_weight.zero_()
    module.weight.data = expected["weight"].clone()
    assert map_modules([module], tmp_path).earlier_bytes == module.weight.nbytes
    assert_same(module, expected)
    assert not mapped_weight.any()


def test_the_scratch_file_goes_with_the_module(tmp_path):
    module = Tied()
    map_modules([module], tmp_path)
    assert open_files(tmp_path)
    del module
    gc.collect()
    assert open_files(tmp_path) == []


def test_two_modules_with_the_same_names_share_one_scratch_file(tmp_path):
    modules = [torch.nn.Linear(64, 64) for _ in range(2)]
    expected = [state(module) for module in modules]
    map_modules(modules, tmp_path)
    for module, weights in zip(modules, expected, strict=True):
        assert_same(module, weights)
    assert len(open_files(tmp_path)) == 1


def test_a_part_of_a_model_that_was_offloaded_with_the_whole_is_not_written_again(tmp_path):
    modules = [torch.nn.Linear(64, 64, bias=False) for _ in range(2)]
    map_modules(modules, tmp_path)
    for module in modules:
        module.weight.data = module.weight.data.clone()
    assert map_modules(modules[1:], tmp_path).written_bytes == 0


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
