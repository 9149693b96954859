"""Private files: sound clones of sound files, and None for everything else, never an exception."""

import json
import os
import random
import struct

import pytest
import torch
from safetensors.torch import save_file

from headroom.base.private_file import clone, write


def headed(header, data=b"12345678"):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(**changed):
    return {"dtype": "U8", "shape": [8], "data_offsets": [0, 8], **changed}


UNSOUND = {
    "empty": b"",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n",
    "no JSON": headed(b"not json at all."),
    "not text": headed(b"\xff\xfe\x00\x01"),
    "a list": headed([]),
    "nested too deeply": headed(b"[" * 200_000),
    "longer than the file": struct.pack("<Q", 1 << 40) + b"{}",
    "an entry that is a number": headed({"a": 1}),
    "no offsets": headed({"a": {"dtype": "U8", "shape": [8]}}),
    "offsets that are text": headed({"a": tensor(data_offsets=["0", "8"])}),
    "three offsets": headed({"a": tensor(data_offsets=[0, 4, 8])}),
    "offsets that are true": headed({"a": tensor(data_offsets=[False, True])}),
    "offsets in reverse": headed({"a": tensor(data_offsets=[8, 0])}),
    "offsets before the data": headed({"a": tensor(data_offsets=[-4, 4])}),
    "cut short": headed({"a": tensor()}, data=b"1234"),
}


@pytest.mark.parametrize("content", UNSOUND.values(), ids=UNSOUND)
def test_a_file_that_is_not_sound_is_no_clone(tmp_path, shares_blocks, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert clone(path, tmp_path) is None


def test_a_header_with_any_bytes_changed_is_read_or_refused_and_never_raises(
    tmp_path, shares_blocks
):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(8), "b": torch.ones(3, 2)}, path)
    whole = path.read_bytes()
    dice = random.Random(0)
    for _ in range(2000):
        changed = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        path.write_bytes(changed[: dice.choice((len(whole), dice.randrange(len(whole))))])
        found = clone(path, tmp_path)
        for slot in found.slots if found else ():
            assert len(found.read(slot.offset, slot.nbytes)) == slot.nbytes


def test_a_sound_file_is_cloned_with_its_tensors(tmp_path, shares_blocks):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.arange(4, dtype=torch.uint8)}, path, {"format": "pt"})
    found = clone(path, tmp_path)
    assert [found.read(slot.offset, slot.nbytes) for slot in found.slots] == [bytes([0, 1, 2, 3])]


def test_a_fifo_a_folder_and_nothing_are_no_clones_and_nobody_waits(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "nothing"):
        assert clone(tmp_path / name, tmp_path) is None


def test_a_folder_in_which_no_file_can_be_made_gives_no_clone(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(8)}, path)
    assert clone(path, tmp_path / "not there") is None


def test_a_real_clone_shares_its_blocks_until_the_first_file_is_overwritten(tmp_path):
    path = tmp_path / "model.safetensors"
    weights = torch.randint(0, 256, (8 << 20,), dtype=torch.uint8)
    save_file({"a": weights}, path)
    os.sync()
    free = os.statvfs(tmp_path)
    found = clone(path, tmp_path)
    if found is None:
        pytest.skip("this file system does not let files share their blocks (XFS, Btrfs do)")
    after = os.statvfs(tmp_path)
    assert (free.f_bfree - after.f_bfree) * free.f_frsize < 1 << 20
    path.write_bytes(b"other")
    slot = found.slots[0]
    assert found.read(slot.offset, slot.nbytes) == weights.numpy().tobytes()


def test_what_is_written_is_read_back_in_order_and_aligned(tmp_path):
    contents = [torch.arange(size, dtype=torch.int32).to(torch.uint8) for size in (5, 4096, 0, 130)]
    file = write(tmp_path, contents)
    for data, slot in zip(contents, file.slots, strict=True):
        assert slot.offset % 64 == 0
        assert file.read(slot.offset, slot.nbytes) == data.numpy().tobytes()
    assert list(tmp_path.iterdir()) == []
