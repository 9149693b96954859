"""ComfyUI's compiler beside OOM Guard: no breaks, no rogues, no replay after a failure."""

import contextlib
import gc
import weakref
from dataclasses import replace

import pytest
import torch
from support.calls import OOM_TEXT, recovered
from support.hosts import GuardHost
from torch.utils._python_dispatch import TorchDispatchMode

from headroom.cast import running
from headroom.guard import attempt, split_batch
from headroom.guard.run import KEY, Run
from headroom.guard.split_batch import forward, join_rows
from headroom.guard.tiles import in_parts
from headroom.host import adapter

STEPS = 4


class Compiler:
    """A stand-in of ComfyUI's (0.35 on): it records what a model allocates, and replays it.

    It records the sizes that are allocated in a scope. The next scope should allocate the same.

    `breaks`: scopes that did not. `rogues`: memory that was recorded and outlived its scope.
    A scope that an exception leaves stays open until `cleanup` drops what was captured.
    """

    def __init__(self):
        self.breaks = self.rogues = self.replays_after_failure = 0
        self.captured = self._sizes = None
        self._made = []
        self._paused = 0
        self.is_broken = False

    @contextlib.contextmanager
    def scope(self):
        """Around what ComfyUI records."""
        self.replays_after_failure += self.is_broken
        self._sizes, self._made = [], []
        try:
            with _Allocations(self):
                yield
        except BaseException:
            self.is_broken = True
            raise
        gc.collect()
        self.rogues += sum(made() is not None for made in self._made)
        self.breaks += self.captured not in (None, self._sizes)
        self.captured, self._sizes, self._made = self._sizes, None, []

    @contextlib.contextmanager
    def pause(self):
        self._paused += 1
        yield
        self._paused -= 1

    def cleanup(self):
        self.captured, self.is_broken = None, False

    def note(self, tensor, given):
        if not self._paused and tensor.untyped_storage().data_ptr() not in given:
            self._sizes.append(tensor.nbytes)
            self._made.append(weakref.ref(tensor))


class _Allocations(TorchDispatchMode):
    def __init__(self, compiler):
        super().__init__()
        self._compiler = compiler

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        flat = [*args, *(args[0] if args and isinstance(args[0], (list, tuple)) else ())]
        given = {one.untyped_storage().data_ptr() for one in flat if isinstance(one, torch.Tensor)}
        if isinstance(result, torch.Tensor):
            self._compiler.note(result, given)
        return result


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
