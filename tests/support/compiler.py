"""A stand-in of ComfyUI's compiler (0.35 on): it records what a model allocates, and replays it."""

import contextlib
import gc
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Compiler:
    """Records the sizes that are allocated in a scope. The next scope should allocate the same.

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
