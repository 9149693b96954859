"""Architectures of the libraries that users' pipelines and packs come from run after a cast."""

from pathlib import Path

import pytest
import torch
from support.architectures import ARCHITECTURES, first_tensor

import headroom

DOCS = Path(__file__).resolve().parents[3] / "docs"
NEAR = {"bfloat16": 0.03, "float16": 0.004}  # of the output's range


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_it_runs_near_the_original_with_half_of_the_bytes(name, dtype):
    pytest.importorskip(name.split()[0])
    torch.manual_seed(0)
    model, args, more = ARCHITECTURES[name]()
    model.eval().requires_grad_(False)
    wanted = first_tensor(model(*args, **more))
    done = headroom.cast(model, dtype)
    found = first_tensor(done.value(*args, **more)).float()
    assert (found - wanted).abs().max() <= NEAR[dtype] * (wanted.max() - wanted.min())
    assert torch.equal(first_tensor(model(*args, **more)), wanted)
    kept = {item.name for one in done.models for item in one.kept}  # tables of positions
    sizes = dict(model.named_parameters())
    assert [name for name, weight in done.value.named_parameters()
            if weight.nbytes * 2 != sizes[name].nbytes and name not in kept] == []


@pytest.mark.parametrize("page", ["nodes.md", "nodes.zh-CN.md"])
def test_the_documentation_names_each_architecture(page):
    text = (DOCS / page).read_text("utf-8")
    assert [name for name in ARCHITECTURES if name.split()[1] not in text] == []
