"""The folder of embeddings on a disk that may only be read, or is full: by the system itself."""

import os
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache

resource = pytest.importorskip("resource", reason="Windows has neither these limits nor modes")

KEY = "0123456789abcdef" * 4
NOBODY = 65534


@pytest.fixture
def cache():
    """A cache with one embedding, below folders that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        cache = EmbeddingCache(Path(name) / "embeddings")
        cache.put(KEY, [[torch.ones(2), {}]])
        yield cache
        cache.folder.chmod(0o755)


@contextmanager
def full_disk():
    """A write stops in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@contextmanager
def nobody():
    """Nothing is forbidden to root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def stored(cache):
    """What the lookup reports after it was asked to keep an embedding of 400 KB."""
    lookup = EmbeddingLookup(cache, "encoder")
    lookup.store("a", [[torch.ones(100_000), {}]])
    cache.trim()
    return lookup.unwritten


def names(cache):
    return [path.name for path in cache.folder.iterdir()]


def test_a_disk_that_is_full_in_the_middle_of_a_write_leaves_nothing_and_is_told(cache):
    with full_disk():
        assert cache.get(KEY) is not None
        assert stored(cache) == "the disk refused: File too large"
    assert names(cache) == [f"{KEY}.safetensors"]
    assert stored(cache) is None and len(names(cache)) == 2


@pytest.mark.parametrize(("folder", "mode", "hits"), [
    (lambda cache: cache.folder, 0o555, True), (lambda cache: cache.folder, 0o000, False),
    (lambda cache: cache.folder.parent, 0o700, False),
], ids=["only to be read", "not to be entered", "below one that is not to be entered"])
def test_a_folder_that_refuses_takes_nothing_and_serves_hits_if_it_may_be_read(
    cache, folder, mode, hits
):
    folder(cache).chmod(mode)
    with nobody():
        assert (cache.get(KEY) is not None) == hits
        assert stored(cache) == "the disk refused: Permission denied"
    folder(cache).chmod(0o755)
    assert names(cache) == [f"{KEY}.safetensors"]


def test_a_file_in_place_of_the_folder_is_a_miss(tmp_path):
    (tmp_path / "embeddings").write_bytes(b"")
    cache = EmbeddingCache(tmp_path / "embeddings")
    assert cache.get(KEY) is None
    assert stored(cache).startswith("the disk refused: ")
