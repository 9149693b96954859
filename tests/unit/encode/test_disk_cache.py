"""The folder of embeddings: whole files, checked, bounded, shared, whatever the clock says."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from headroom.base.stored_value import Unstorable
from headroom.encode import disk_cache
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache

ROOT = Path(__file__).resolve().parents[3]
KEY, OTHER = "0123456789abcdef" * 4, "fedcba9876543210" * 4


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path / "embeddings")


def value(number, kib=1):
    return [[torch.full((kib * 256,), float(number)), {"pooled_output": None}]]


def number_of(stored):
    return None if stored is None else float(stored[0][0][0])


def files(cache):
    return sorted(path.name for path in cache.folder.iterdir())


def test_a_stored_value_is_found_and_no_other(cache):
    cache.put("a", value(1))
    assert number_of(cache.get("a")) == 1 and cache.get("b") is None
    assert files(cache) == ["a.safetensors"]


def test_nothing_is_left_of_a_value_that_cannot_be_stored(cache):
    with pytest.raises(Unstorable):
        cache.put("a", [object()])
    assert not cache.folder.exists() or files(cache) == []


def test_the_least_recently_used_files_leave_first(cache):
    first, _, _, last = keys = [64 * letter for letter in "abcd"]
    for index, key in enumerate(keys):
        cache.put(key, value(index, kib=100))
        os.utime(cache.folder / f"{key}.safetensors", (1000 + index, 1000 + index))
    assert number_of(cache.get(first)) == 0  # used now, so it stays
    cache.limit_bytes = 250 * 1024
    assert cache.trim() > 0
    assert files(cache) == [f"{first}.safetensors", f"{last}.safetensors"]
    assert cache.trim() == 0


def test_writing_much_trims_on_the_way(cache, monkeypatch):
    monkeypatch.setattr("headroom.encode.disk_cache.TRIM_EVERY_BYTES", 300 * 1024)
    cache.limit_bytes = 350 * 1024
    for index in range(12):
        cache.put(f"{index:064x}", value(index, kib=100))
        total = sum(path.stat().st_size for path in cache.folder.iterdir())
        assert total <= 350 * 1024 + 300 * 1024 + 110 * 1024


def test_parts_of_a_crashed_write_leave_and_those_of_another_server_stay(cache):
    cache.put("a", value(1))
    old, new = cache.folder / "x.1.part", cache.folder / "y.2.part"
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    os.utime(old, (0, 0))
    cache.trim()
    assert files(cache) == ["a.safetensors", "y.2.part"]


def test_the_limit_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADROOM_EMBEDDING_CACHE_MIB", "12")
    assert EmbeddingCache(tmp_path).limit_bytes == 12 * 2**20


WORKER = """
import sys, torch, random
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from headroom.encode import disk_cache
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache
cache = EmbeddingCache(Path(sys.argv[2]), limit_bytes=600 * 1024)
random.seed(int(sys.argv[3]))
hits = 0
for step in range(120):
    number = random.randrange(8)
    got = cache.get(f"{number:064x}")
    if got is not None:
        assert torch.equal(got[0], torch.full((25600,), float(number))), "a wrong value was read"
        hits += 1
    else:
        cache.put(f"{number:064x}", [torch.full((25600,), float(number))])
    if step % 10 == 0:
        cache.trim()
print("hits", hits)
"""


def test_two_servers_share_one_folder_and_never_read_a_wrong_or_partial_value(cache):
    command = [sys.executable, "-c", WORKER, str(ROOT), str(cache.folder)]
    workers = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for seed in range(2)
    ]
    answers = [(*worker.communicate(timeout=600), worker.returncode) for worker in workers]
    assert all(code == 0 for *_, code in answers), answers
    assert all(b"hits" in out for out, *_ in answers)
    assert not any(b"not usable" in err for _, err, _ in answers), answers


def test_a_file_dated_in_the_future_leaves_before_one_that_was_used_now(cache):
    cache.put(KEY, value(1))
    future = cache.folder / f"{OTHER}.safetensors"
    future.write_bytes((cache.folder / f"{KEY}.safetensors").read_bytes())
    os.utime(future, (time.time() + 9e6, time.time() + 9e6))
    assert cache.get(KEY) is not None
    cache.limit_bytes = future.stat().st_size + 10
    assert cache.trim() > 0
    assert not future.exists() and cache.get(KEY) is not None


@pytest.mark.parametrize("jump", [-400 * 86_400, 400 * 86_400])
def test_a_clock_that_jumps_loses_no_embedding_within_the_limit(cache, monkeypatch, jump):
    cache.put(KEY, value(1))
    wall = time.time
    monkeypatch.setattr(disk_cache.time, "time", lambda: wall() + jump)
    assert cache.trim() == 0 and cache.get(KEY) is not None
    cache.put(OTHER, value(1))
    monkeypatch.undo()
    assert cache.trim() == 0
    assert cache.get(KEY) is not None and cache.get(OTHER) is not None


@pytest.mark.parametrize("jump", [-400 * 86_400, 400 * 86_400])
def test_a_clock_that_jumps_in_the_middle_of_a_write_costs_that_file_at_most(
    cache, monkeypatch, jump
):
    """Another server sees a part that looks old, or dated in the future, and tidies it away."""
    lookup, wall, write = EmbeddingLookup(cache, "it"), time.time, Path.write_bytes

    def written(path, data):
        write(path, data)
        monkeypatch.setattr(disk_cache.time, "time", lambda: wall() + jump)
        EmbeddingCache(cache.folder).trim()

    monkeypatch.setattr(Path, "write_bytes", written)
    lookup.store("a cat", value(1))
    assert lookup.unwritten.startswith("the disk refused: ")
    assert list(cache.folder.iterdir()) == []
    monkeypatch.undo()
    again = EmbeddingLookup(cache, "it")
    again.store("a cat", value(1))
    assert again.unwritten is None and again.has_all(["a cat"])
