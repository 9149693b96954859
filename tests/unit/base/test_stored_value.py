"""The embedding cache reads what it wrote bit by bit, or not at all."""

import json
import math
import struct

import pytest
import torch
from safetensors.torch import load

import simgpu
from headroom.base import stored_value
from headroom.base.stored_value import Damaged, Unstorable, from_bytes, to_bytes

KEY = "k" * 64


def conditioning():
    generator = torch.Generator().manual_seed(1)
    cond = torch.randn((1, 77, 8), generator=generator)
    return [[cond, {
        "pooled_output": torch.randn((1, 8), generator=generator).to(torch.bfloat16),
        "attention_mask": torch.ones((1, 77), dtype=torch.int64),
        "half": cond[0, 0].to(torch.float16), "byte": cond[0].to(torch.float8_e4m3fn),
        "same": cond, "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4),
        "none": None, "start": 0.25, "count": 3, "flag": True, "name": "Katze 猫",
        "huge": 2**70, "nan": math.nan, "pair": (1, [2.0, ()]), 7: "integer key", None: "none key",
    }]]


def same(a, b):
    if isinstance(a, torch.Tensor):
        bits_a, bits_b = (t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits_a, bits_b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or a != a and b != b)


def test_a_conditioning_comes_back_bit_by_bit_with_its_types():
    original = conditioning()
    restored = from_bytes(to_bytes(original, KEY), KEY)
    assert same(original, restored)
    assert restored[0][0] is restored[0][1]["same"]
    assert not restored[0][0].untyped_storage().resizable()


def test_the_file_is_an_ordinary_safetensors_file_without_pickle_that_says_its_key():
    data = to_bytes(conditioning(), KEY)
    assert torch.float8_e4m3fn in {tensor.dtype for tensor in load(data).values()}
    assert b"pickle" not in data and b"\x80\x04" not in data[:4096]
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert json.loads(header["__metadata__"]["headroom"])["key"] == KEY


def test_a_file_under_the_wrong_name_is_refused():
    with pytest.raises(Damaged, match="for another prompt"):
        from_bytes(to_bytes(conditioning(), KEY), "other")


@pytest.mark.parametrize("tensor", [
    torch.ones(0), torch.ones(0, dtype=torch.int64), torch.ones(2, 0, 3, dtype=torch.bfloat16),
    torch._neg_view(torch.arange(6.0).reshape(2, 3)), torch.ones(1).expand(3, 4),
], ids=["none", "none of whole numbers", "none in three dimensions", "a negative view", "expanded"])
def test_tensors_of_every_kind_of_memory_come_back(tensor):
    assert torch.equal(from_bytes(to_bytes(tensor, KEY), KEY), tensor)


def with_tensors(entry, count, data=b""):
    """A file of ours by its header, with so many tensors of that entry."""
    note = {"format": 1, "key": KEY, "structure": "", "sha256": ""}
    header = {"__metadata__": {"headroom": json.dumps(note)}}
    text = json.dumps({**header, **{f"t{index}": entry for index in range(count)}}).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_tensors_that_share_bytes_of_a_file_are_refused_before_they_cost_ram():
    entry = {"dtype": "U8", "shape": [4096], "data_offsets": [0, 4096]}
    with pytest.raises(Damaged, match="offset"):
        from_bytes(with_tensors(entry, 1000, bytes(4096)), KEY)


def test_a_file_of_very_many_tensors_is_refused_at_once():
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    with pytest.raises(Damaged, match="more than 10,000 tensors"):
        from_bytes(with_tensors(entry, 10_001), KEY)


def contains_itself():
    value = {}
    value["self"] = [value]
    return value


def nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("value", "text"), [
    (contains_itself(), "contains itself"), (nested(20_000), "too deeply"),
    ([torch.ones(1) for _ in range(10_001)], "10,000 tensors"),
    ([[torch.ones(1), {"hooks": object()}]], r"value\[0\]\[1\]\['hooks'\] is a object"),
    ([torch.ones(2).to_sparse()], "safetensors cannot store"),
    ([torch.ones(2, dtype=torch.complex64)], "safetensors cannot store"),
    ({(1, 2): 3}, "no text or number"),
    ([{1, 2}], "is a set"),
])
def test_a_value_without_a_safe_form_is_named_and_not_written(value, text):
    with pytest.raises(Unstorable, match=text):
        to_bytes(value, KEY)


def test_a_tensor_on_a_gpu_is_stored_as_well():
    simgpu.switch_on(64 << 20)
    try:
        data = to_bytes([[torch.arange(6.0, device="cuda").to(torch.bfloat16), {}]], KEY)
    finally:
        simgpu.switch_off()
    assert from_bytes(data, KEY)[0][0].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_value_that_was_read_tells_comfyui_its_size():
    """Newer ComfyUIs drop what takes most RAM first, and count the storages of plain tensors."""
    def bytes_of(value):
        if isinstance(value, torch.Tensor):
            assert type(value) is torch.Tensor and value.device.type == "cpu"
            return {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes()}
        items = value.values() if isinstance(value, dict) else value
        found = {}
        for item in items if isinstance(value, (dict, list, tuple)) else ():
            found.update(bytes_of(item))
        return found

    written = conditioning()
    read = from_bytes(to_bytes(written, KEY), KEY)
    assert sum(bytes_of(read).values()) >= sum(bytes_of(written).values()) - written[0][0].nbytes
    assert sum(bytes_of(read).values()) >= written[0][0].nbytes


def test_a_header_that_would_take_gigabytes_to_read_is_neither_written_nor_read(monkeypatch):
    with pytest.raises(Unstorable, match="more than 10 MB of text and numbers"):
        to_bytes([[torch.ones(2), {"codes": list(range(10**6))}]], KEY)
    monkeypatch.setattr(stored_value.json, "loads", lambda text: pytest.fail("it was read"))
    data = struct.pack("<Q", 50_000_000) + b"[" * 64
    with pytest.raises(Damaged):
        from_bytes(data, KEY)
