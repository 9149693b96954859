"""Our nodes' results tell ComfyUI's cache their size, by which it chooses what to drop first.

ComfyUI counts tensors in lists, tuples and mappings, each storage once; any other object is asked
for its tensors by `_comfy_cache_tensors`, and counts as nothing without (comfy_execution/caching.py
of October 2026).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from support.models import Encoder

from headroom.actions.to_cpu import move_to_cpu
from headroom.encode import named_conditioning
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache
from headroom.encode.encode import encode_to_cpu

MADE_BYTES = (2 + 1) * 4  # an embedding of two numbers, and a pooled one


def told_bytes(value, seen):
    """What ComfyUI's RAM-pressure cache takes for the size of an output."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        is_new = storage.data_ptr() not in seen and value.device.type == "cpu"
        seen.add(storage.data_ptr())
        return storage.nbytes() if is_new else 0
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return sum(told_bytes(one, seen) for one in value)
    told = getattr(value, "_comfy_cache_tensors", None)
    return 0 if told is None else told_bytes(told(), seen)


@pytest.mark.parametrize("source", ["encoded", "from the disk cache", "loaded"])
def test_a_conditioning_tells_all_its_bytes_and_none_that_are_not_its_own(tmp_path, source):
    lookup = EmbeddingLookup(EmbeddingCache(tmp_path), "encoder")
    if source == "from the disk cache":
        encode_to_cpu(Encoder(), ["a"], lookup=lookup)
        lookup = EmbeddingLookup(lookup.cache, "encoder")
    found = encode_to_cpu(Encoder(), ["a"], lookup=lookup).conditionings
    if source == "loaded":
        file = tmp_path / "kept.safetensors"
        named_conditioning.save(found[0], file, [])
        found = [named_conditioning.load(file).conditioning]
    assert told_bytes(found, set()) == MADE_BYTES


@dataclass
class Sparse:
    """A value of another pack, which says what it holds."""

    rows: torch.Tensor

    def _comfy_cache_tensors(self):
        return [self.rows]


def test_a_copy_in_ram_of_another_packs_value_tells_its_size_too():
    rows = torch.ones(1000, 8)
    moved, _ = move_to_cpu([Sparse(rows[:10]), {"mask": rows[:1]}])
    assert isinstance(moved[0], Sparse) and told_bytes(moved, set()) == 11 * 8 * 4
