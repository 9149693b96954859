"""Cutting a joined call into pieces: what is cut, what is not, and that the rows come back."""

import dataclasses
from collections import UserDict, defaultdict, deque, namedtuple
from types import SimpleNamespace

import pytest
import torch

from headroom.guard import split_batch as oom_batch
from headroom.guard.call import Plan
from headroom.guard.run import KEY, Piece, Run, pieces
from headroom.guard.split_batch import Unsplittable, rows_of


@pytest.mark.parametrize(("batch", "chunks", "limit", "independent", "spans"), [
    (8, 2, 4, True, [(0, 4, 0, 1), (4, 8, 1, 2)]),
    (8, 2, 4, False, [(0, 4, 0, 1), (4, 8, 1, 2)]),
    (8, 2, 2, True, [(0, 2, 0, 1), (2, 4, 0, 1), (4, 6, 1, 2), (6, 8, 1, 2)]),
    (8, 2, 3, True, [(0, 3, 0, 1), (3, 4, 0, 1), (4, 7, 1, 2), (7, 8, 1, 2)]),
    (8, 2, 1, False, [(0, 4, 0, 1), (4, 8, 1, 2)]),
    (6, 3, 4, True, [(0, 4, 0, 2), (4, 6, 2, 3)]),
    (3, 3, 1, False, [(0, 1, 0, 1), (1, 2, 1, 2), (2, 3, 2, 3)]),
    (2, 1, 1, True, [(0, 1, 0, 1), (1, 2, 0, 1)]),
])
def test_pieces_never_mix_parts_of_two_conditionings(batch, chunks, limit, independent, spans):
    cut = pieces(batch, chunks, limit, independent)
    assert cut == [Piece(*span) for span in spans]


def test_every_value_with_the_batch_in_front_is_cut_and_the_others_are_kept():
    constant = torch.ones(1, 3)
    scalar = torch.tensor(2.0)
    value = {"y": torch.arange(4), "g": constant, "s": scalar, "n": 7, "refs": [torch.arange(4)],
             "shapes": [torch.Size([4, 2])]}
    cut = rows_of(value, 1, 3, 4)
    assert cut["y"].tolist() == [1, 2]
    assert cut["refs"][0].tolist() == [1, 2]
    assert cut["g"] is constant
    assert cut["s"] is scalar
    assert cut["n"] == 7
    assert cut["shapes"] == [torch.Size([4, 2])]


Pair = namedtuple("Pair", ["rows", "name"])


@dataclasses.dataclass
class Held:
    rows: torch.Tensor | None = None


@pytest.mark.parametrize("value", [
    torch.ones(3, 2), [torch.ones(5)], {"a": torch.ones(2)}, torch.ones(4, 2).to_sparse(),
    [torch.nested.nested_tensor([torch.ones(1)] * 4)], deque([torch.ones(4)]),
    SimpleNamespace(rows=torch.ones(4)), Held(torch.ones(4)), UserDict(rows=torch.ones(4)),
    Pair(torch.ones(4), "x"), defaultdict(int, rows=torch.ones(4)), Held(),
])
def test_a_tensor_of_unknown_layout_or_in_an_unknown_container_is_not_cut(value):
    for where in (value, {"value": value}, [value]):
        with pytest.raises(Unsplittable):
            rows_of(where, 0, 1, 4)


def test_a_piece_gets_the_options_comfyui_would_have_made_for_it():
    options = {"cond_or_uncond": [0, 1], "uuids": ["a", "b"], "sigmas": torch.arange(4.0),
               "patches": {}}
    whole = oom_batch.options_of(options, Piece(4, 8, 1, 2), 4)
    assert whole["cond_or_uncond"] == [1]
    assert whole["uuids"] == ["b"]
    assert whole["sigmas"].tolist() == [0, 1, 2, 3]
    part = oom_batch.options_of(options, Piece(5, 7, 1, 2), 4)
    assert part["sigmas"].tolist() == [1, 2]
    assert options["cond_or_uncond"] == [0, 1]


def unknown_patch(q, k, v, extra_options):
    return q, k, v


def known_patch(h, hsp, options):
    return h, hsp


known_patch.__module__ = "comfy_extras.nodes_freelunch"


@pytest.mark.parametrize(("options", "kwargs", "independent"), [
    ({}, {}, True),
    ({"patches": {"attn1_patch": [unknown_patch]}}, {}, False),
    ({"patches": {"output_block_patch": [known_patch]}}, {}, True),
    ({"patches_replace": {"attn2": {("middle", 0): unknown_patch}}}, {}, False),
    ({}, {"num_video_frames": 14}, False),
    ({"ad_params": {}}, {}, False),
    ({"ar_state": {"kv_caches": [{"k": torch.ones(4, 2)}]}}, {}, False),
    ({"something": torch.ones(4)}, {}, False),
    ({"sigmas": torch.ones(4), "sample_sigmas": torch.ones(9)}, {"y": torch.ones(4)}, True),
])
def test_images_are_separated_only_where_nothing_can_mix_them(options, kwargs, independent):
    assert oom_batch.images_are_independent(options, kwargs) is independent


def test_the_rows_of_all_pieces_come_back_in_their_places():
    x = torch.randn(6, 2, 3)
    cut = pieces(6, 2, 2, True)
    result = oom_batch.run_in_pieces(cut, 6, lambda part: x[part.start:part.stop] * 2)
    assert torch.equal(result, x * 2)


def test_every_piece_draws_the_random_numbers_of_the_whole_call():
    def run(part):
        return torch.zeros(part.stop - part.start, 1) + torch.rand(())

    torch.manual_seed(1)
    whole = run(Piece(0, 4, 0, 2))
    after = torch.rand(())
    torch.manual_seed(1)
    in_pieces = oom_batch.run_in_pieces(pieces(4, 2, 2, True), 4, run)
    assert torch.equal(in_pieces, whole)
    assert torch.rand(()) == after


@pytest.mark.parametrize(("module", "rows", "calls"), [
    ("other", 2, 2), ("other", 3, 1), ("comfy_extras.nodes_nag", 2, 1),
    ("comfy_extras.nodes_flux", 2, 1)])
def test_a_call_is_not_cut_if_a_patch_needs_all_conditionings_or_rows_of_a_value_are_not_known(
    monkeypatch, module, rows, calls
):
    def patch(out, extra_options):
        return out

    patch.__module__ = module
    monkeypatch.setattr(oom_batch, "guard_host", lambda: None)
    run, seen = Run(), []
    run.plan = Plan(parts=1)
    options = {KEY: run, "cond_or_uncond": [0, 1], "patches": {"attn1_output_patch": [patch]}}
    oom_batch.forward(lambda x, *_: seen.append(x) or x, torch.ones(2, 3), torch.ones(2),
                      torch.ones(rows, 3), transformer_options=options)
    assert len(seen) == calls


def test_a_network_that_exchanges_the_halves_of_its_batch_is_not_cut(monkeypatch):
    """Hunyuan3D 2.1: a half that is cut again exchanges two shapes, or has nothing to exchange."""
    class HunYuanDiTPlain(torch.nn.Module):
        __module__ = "comfy.ldm.hunyuan3dv2_1.hunyuandit"

    class Executor:
        class_obj = SimpleNamespace(diffusion_model=HunYuanDiTPlain())

        def __call__(self, x, *_):
            return torch.cat(x.chunk(2)[::-1])

    monkeypatch.setattr(oom_batch, "guard_host", lambda: None)
    run, x = Run(), torch.arange(4.0)
    run.plan = Plan(parts=1)
    options = {KEY: run, "cond_or_uncond": [0, 1]}
    result = oom_batch.forward(Executor(), x, torch.ones(4), transformer_options=options)
    assert result.tolist() == [2, 3, 0, 1]
    assert run.smallest == 4


def test_joining_keeps_shared_tensors_shared():
    first, second = torch.ones(1, 2), torch.zeros(2, 2)
    joined = oom_batch.join_rows([
        {"input": [first, None, first], "middle": [first]},
        {"input": [second, None, second], "middle": [second]},
    ])
    assert joined["input"][0] is joined["input"][2]
    assert joined["input"][1] is None
    assert joined["middle"][0].tolist() == [[1, 1], [0, 0], [0, 0]]
