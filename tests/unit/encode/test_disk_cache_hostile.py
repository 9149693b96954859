"""Nothing in the folder of embeddings is trusted: every defect is a miss, no miss an error."""

import hashlib
import json
import os
import random
import struct
import time

import pytest
import torch
from safetensors.torch import save

from headroom.base import untrusted_file
from headroom.base.stored_value import METADATA_KEY, Damaged, from_bytes, to_bytes
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache

KEY = "0123456789abcdef" * 4
MUTATIONS = 10_000


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path)


def conditioning():
    return [[torch.arange(6.0).reshape(1, 2, 3), {"pooled_output": None, "half": torch.ones(2)}]]


def forged(structure):
    """A file with a right checksum over a structure that `to_bytes` never writes."""
    text = structure if isinstance(structure, str) else json.dumps(structure)
    digest = hashlib.sha256(json.dumps([1, KEY, text]).encode())
    note = {"format": 1, "key": KEY, "structure": text, "sha256": digest.hexdigest()}
    return save({}, {METADATA_KEY: json.dumps(note)})


def headed(header, rest=b""):
    return struct.pack("<Q", len(header)) + header + rest


DEEP = 5000
HOSTILE = {
    "nested brackets in the header": headed(b"[" * DEEP + b"]" * DEEP),
    "nested objects in the header": headed(b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "nested brackets in the note": headed(json.dumps(
        {"__metadata__": {METADATA_KEY: "[" * DEEP + "]" * DEEP}}).encode()),
    "nested brackets in the structure": forged("[" * DEEP + "]" * DEEP),
    "nested lists": forged('{"list":[' * DEEP + "]}" * DEEP),
    "a list as a structure": forged([1, 2]),
    "a number as a structure": forged(3),
    "null as a structure": forged(None),
    "two kinds at once": forged({"value": 1, "list": []}),
    "no kind": forged({}),
    "an unknown kind": forged({"evil": [{"value": 1}]}),
    "a tensor that is not there": forged({"tensor": "t9"}),
    "a tensor by a list": forged({"tensor": ["t0"]}),
    "a dict of numbers": forged({"dict": 5}),
    "a dict of triples": forged({"dict": [[1, 2, 3]]}),
    "a key that is a list": forged({"dict": [[["a"], {"value": 1}]]}),
    "a key that is an object": forged({"dict": [[{"a": 1}, {"value": 1}]]}),
    "an object as a value": forged({"value": {"a": [1]}}),
    "a list as a value": forged({"value": [[]]}),
    "a number as a list": forged({"list": 5}),
    "a text as a list": forged({"list": "abc"}),
    "a number of 5,000 digits": forged('{"value":' + "9" * DEEP + "}"),
    "a header without a note": headed(b'{"__metadata__":{}}'),
    "a note that is a list": headed(b'{"__metadata__":{"headroom":"[]"}}'),
    "a note that is a number": headed(b'{"__metadata__":{"headroom":7}}'),
    "metadata that is a list": headed(b'{"__metadata__":[]}'),
    "a shape beyond all memory": headed(
        b'{"t0":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}}', b"1234"
    ),
    "an empty tensor of a shape beyond all memory": headed(
        b'{"t0":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}}', b"1234"
    ),
    "a tensor of a dtype that is none": headed(
        b'{"t0":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}}', b"1234"
    ),
    "a shape of texts": headed(
        b'{"t0":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}}', b"1234"
    ),
    "a header longer than the file": struct.pack("<Q", 2**63) + b"{}",
    "no file at all": b"",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_forged_file_is_a_miss_and_is_replaced(cache, content):
    with pytest.raises(Damaged):
        from_bytes(content, KEY)
    (cache.folder / f"{KEY}.safetensors").write_bytes(content)
    assert cache.get(KEY) is None
    cache.put(KEY, conditioning())
    assert torch.equal(cache.get(KEY)[0][0], conditioning()[0][0])


@pytest.mark.parametrize("value", [
    None, 5, "text", [], [5], [[]], [[torch.ones(1)]], [["text", {}]], [[torch.ones(1), []]],
    [[torch.ones(1), {}, 3]], [[torch.ones(1), {5: 1}]], {"a": torch.ones(1)},
])
def test_a_sound_file_with_something_else_than_a_conditioning_is_a_miss(cache, value):
    lookup = EmbeddingLookup(cache, "encoder")
    cache.put(lookup._key("a"), value)
    assert not lookup.has_all(["a"]) and lookup.found == {}


def test_10_000_mutations_are_each_a_miss_or_the_very_same_value():
    random.seed(16)
    good = to_bytes(conditioning(), KEY)
    expected = to_bytes(from_bytes(good, KEY), KEY)
    misses = 0
    for _ in range(MUTATIONS):
        try:
            value = from_bytes(mutated(good), KEY)
        except Damaged:
            misses += 1
            continue
        assert to_bytes(value, KEY) == expected
    assert misses > MUTATIONS * 0.9


def mutated(data):
    """Bytes flipped, cut out, put in, doubled, or numbers and brackets of the header changed."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(found))
        kind = random.randrange(6)
        if kind == 0:
            found[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del found[at : at + random.randrange(1, 40)]
        elif kind == 2:
            found[at:at] = random.randbytes(random.randrange(1, 40))
        elif kind == 3:
            found[at : at + 8] = struct.pack("<Q", random.choice((0, 1, 7, 2**31, 2**64 - 1)))
        elif kind == 4:
            found[at:at] = found[at : at + random.randrange(1, 200)]
        else:
            found[at : at + 1] = random.choice((b"[", b"{", b"9" * 30, b'"', b"null", b"-1", b"\\"))
        found = found or bytearray(b"\0")
    return bytes(found)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_pipe_in_the_folder_is_a_miss_and_nobody_waits_for_it(cache):
    os.mkfifo(cache.folder / f"{KEY}.safetensors")
    assert cache.get(KEY) is None
    cache.put(KEY, conditioning())
    assert cache.get(KEY) is not None


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such devices")
@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/nowhere"])
def test_a_link_to_something_that_is_no_file_is_a_miss(cache, target):
    (cache.folder / f"{KEY}.safetensors").symlink_to(target)
    assert cache.get(KEY) is None
    cache.put(KEY, conditioning())
    assert cache.get(KEY) is not None


def test_a_folder_where_a_file_belongs_is_a_miss(cache):
    (cache.folder / f"{KEY}.safetensors").mkdir()
    assert cache.get(KEY) is None and cache.trim() == 0
    with pytest.raises(OSError):
        cache.put(KEY, conditioning())


def test_a_file_of_6_gib_is_not_read_and_takes_no_room_from_others(cache, monkeypatch):
    cache.put(KEY, conditioning())
    huge = cache.folder / f"{KEY[::-1]}.safetensors"
    with huge.open("wb") as file:
        file.write(struct.pack("<Q", 6 * 2**30 - 8) + b"{")
        file.truncate(6 * 2**30)
    read = []

    def watched(*how, **named):
        file = open(*how, **named)
        file.read = lambda size, read_bytes=file.read: read.append(size) or read_bytes(size)
        return file

    monkeypatch.setattr(untrusted_file, "open", watched, raising=False)
    assert cache.get(KEY[::-1]) is None and not read
    cache.trim()
    assert cache.get(KEY) is not None and read and not huge.exists()


@pytest.mark.parametrize("hours", [-2, 2, 24 * 365 * 50])
def test_parts_leave_whether_they_are_dated_long_ago_or_in_the_future(cache, hours):
    part = cache.folder / f"{KEY}.77.{'ab' * 16}.part"
    part.write_bytes(b"left by a crash")
    at = time.time() + hours * 3600
    os.utime(part, (at, at))
    cache.trim()
    assert not part.exists()


def test_files_of_others_in_the_folder_are_neither_counted_nor_removed(cache):
    """Somebody sets the folder to one that holds models."""
    model = cache.folder / "sd15.safetensors"
    model.write_bytes(save({"weight": torch.ones(1000)}, {"made by": "somebody else"}))
    download = cache.folder / "flux.safetensors.part"
    download.write_bytes(b"half of it")
    for path in (model, download):
        os.utime(path, (1, 1))
    cache.limit_bytes = 3000
    cache.put(KEY, conditioning())
    cache.trim()
    assert model.exists() and download.exists() and cache.get(KEY) is not None
