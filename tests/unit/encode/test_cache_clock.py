"""Files dated in the future and clocks that jump cost no embedding within the limit."""

import os
import time
from pathlib import Path

import pytest
import torch

from headroom.encode import disk_cache
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache

KEY = "0123456789abcdef" * 4


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path)


def conditioning():
    return [[torch.arange(6.0).reshape(1, 2, 3), {"pooled_output": None, "half": torch.ones(2)}]]


def test_a_file_dated_in_the_future_leaves_before_one_that_was_used_now(cache):
    cache.put(KEY, conditioning())
    future = cache.folder / f"{KEY[::-1]}.safetensors"
    future.write_bytes((cache.folder / f"{KEY}.safetensors").read_bytes())
    os.utime(future, (time.time() + 9e6, time.time() + 9e6))
    assert cache.get(KEY) is not None
    cache.limit_bytes = future.stat().st_size + 10
    assert cache.trim() > 0
    assert not future.exists() and cache.get(KEY) is not None


@pytest.mark.parametrize("jump", [-400 * 86_400, 400 * 86_400])
def test_a_clock_that_jumps_loses_no_embedding_within_the_limit(cache, monkeypatch, jump):
    cache.put(KEY, conditioning())
    wall = time.time
    monkeypatch.setattr(disk_cache.time, "time", lambda: wall() + jump)
    assert cache.trim() == 0 and cache.get(KEY) is not None
    cache.put(KEY[::-1], conditioning())
    monkeypatch.undo()
    assert cache.trim() == 0
    assert cache.get(KEY) is not None and cache.get(KEY[::-1]) is not None


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
    lookup.store("a cat", conditioning())
    assert lookup.unwritten.startswith("the disk refused: ")
    assert list(cache.folder.iterdir()) == []
    monkeypatch.undo()
    again = EmbeddingLookup(cache, "it")
    again.store("a cat", conditioning())
    assert again.unwritten is None and again.has_all(["a cat"])
