"""Frames of videos in RAM: a dry run writes to none of them, and gives what has their shape."""

import runpy
from pathlib import Path

import pytest
import torch

from tools import dry_server

DRY = Path(dry_server.__file__).parent / "packs" / "headroom_dry"
aten = torch.ops.aten


@pytest.fixture(scope="module")
def uncomputed():
    made = runpy.run_path(str(DRY / "headroom_dry_frames.py"))
    return lambda func, *args, **kwargs: made["uncomputed"](
        func, args, kwargs, [one for one in args if isinstance(one, torch.Tensor)])


@pytest.fixture(scope="module")
def frames():
    return torch.empty(64, 1024, 1024)  # 256 MiB that nobody writes to


def test_each_step_over_frames_gives_their_shape_and_type_and_an_inplace_one_the_same_memory(
    uncomputed, frames
):
    added = uncomputed(aten.add.Tensor, frames, torch.ones(1024))
    assert added.shape == frames.shape and added.data_ptr() != frames.data_ptr()
    assert uncomputed(aten._to_copy.default, frames, dtype=torch.float16).dtype == torch.float16
    assert uncomputed(aten.clamp_.default, frames, 0.0, 1.0) is frames


def test_what_is_small_looked_at_as_a_whole_or_whole_numbers_is_computed(uncomputed, frames):
    assert uncomputed(aten.add.Tensor, torch.ones(4), torch.ones(4)) is None
    assert uncomputed(aten.sum.default, frames) is None
    assert uncomputed(aten.bitwise_not.default, frames.view(torch.int32)) is None
