"""ComfyUI's compiler beside OOM Guard: no breaks, no rogues, no replay after a failure."""

from dataclasses import replace

import pytest
import torch
from support.calls import OOM_TEXT, recovered
from support.compiler import Compiler
from support.hosts import GuardHost

from headroom.cast import running
from headroom.guard import attempt, split_batch
from headroom.guard.run import KEY, Run
from headroom.guard.split_batch import forward, join_rows
from headroom.guard.tiles import in_parts
from headroom.host import adapter

STEPS = 4


@pytest.fixture
def compiler(monkeypatch):
    made = Compiler()
    host = GuardHost(recording_paused=made.pause, settle_streaming=made.cleanup)
    for module in (adapter, split_batch, attempt):
        monkeypatch.setattr(module, "guard_host", lambda: host)
    return made


def network(x, t, c_concat, c_crossattn, control, options, **kwargs):
    return (x * 2 + 1).sin()


def steps(compiler, parts):
    """What the steps of a sampling give, in pieces of so many rows."""
    run = Run()
    run.plan = replace(run.plan, parts=parts)
    x, t = torch.arange(8.0).reshape(4, 2), torch.zeros(4)
    for _ in range(STEPS):
        result = None
        with compiler.scope():
            result = forward(network, x, t, transformer_options={KEY: run, "cond_or_uncond": [0]})
            if parts in (None, 4):  # ComfyUI copies its own result out of the scope
                with compiler.pause():
                    result = result.clone()
    return result


@pytest.mark.parametrize("parts", [None, 4, 2, 1])
def test_where_nothing_failed_there_are_no_breaks_and_no_rogues(compiler, parts):
    result = steps(compiler, parts)
    assert torch.equal(result, (torch.arange(8.0).reshape(4, 2) * 2 + 1).sin())
    assert (compiler.breaks, compiler.rogues) == (0, 0)
    assert compiler.captured  # it has seen the network


def test_pieces_that_were_joined_within_the_record_would_be_rogues(compiler, monkeypatch):
    """The stand-in of the compiler notices them."""
    compiler.pause = Compiler().pause
    monkeypatch.setattr(adapter, "guard_host", lambda: None)
    steps(compiler, 2)
    assert compiler.rogues == STEPS


def test_nested_results_and_pictures_are_joined_outside_of_the_record(compiler):
    parts = [torch.ones(1, 2), torch.ones(1, 2)]
    with compiler.scope():
        rows = join_rows([{"a": part, "b": [part]} for part in parts])
        pictures = in_parts(torch.clone, torch.cat(parts), 1)
    assert rows["a"].shape == pictures.shape == (2, 2)
    assert compiler.rogues == 0


def test_layers_that_cast_their_inputs_leave_neither_breaks_nor_rogues(compiler):
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)).bfloat16()
    layers[1].float()  # kept
    running.arm(layers, torch.bfloat16, everywhere=True)
    for _ in range(STEPS):
        with torch.no_grad(), compiler.scope():
            layers(torch.ones(2, 8))
    assert (compiler.breaks, compiler.rogues) == (0, 0) and len(compiler.captured) > 4


def test_captured_allocations_are_not_replayed_after_a_failure(compiler):
    left = [torch.OutOfMemoryError(OOM_TEXT), torch.OutOfMemoryError(OOM_TEXT)]

    def call():
        with compiler.scope():
            network(torch.ones(2, 2), None, None, None, None, {})
            if left:
                raise left.pop()
        return "done"

    with compiler.scope():
        network(torch.ones(4, 2), None, None, None, None, {})
    assert recovered(call, cuts=2) == "done"
    assert compiler.replays_after_failure == 0 and compiler.breaks == 0
