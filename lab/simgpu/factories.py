"""New tensors on the device: the kernels PyTorch calls for `torch.zeros(..., device="cuda")`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any

import torch

from .tensor import charged

aten = torch.ops.aten

# All that make a tensor without having one; everything else (zeros, rand, hann_window, ...)
# is composed of these by PyTorch.
NAMES = (
    "empty.memory_format",
    "empty_strided",
    "arange",
    "arange.start",
    "arange.start_step",
    "full",
    "eye",
    "eye.m",
    "linspace",
    "logspace",
    "range",
    "range.step",
    "randperm",
    "randperm.generator",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
)


def register() -> torch.library.Library:
    """Make the CUDA device the simulated one; undone by the library's `_destroy()`."""
    library = torch.library.Library("aten", "IMPL")
    is_named = "allow_override" in signature(library.impl).parameters  # PyTorch 2.7 needs no leave
    leave = {"allow_override": True} if is_named else {}
    with warnings.catch_warnings():
        # A torch built for CUDA has kernels for a real GPU there, and says that they are hidden.
        warnings.filterwarnings("ignore", message=r"(?s).*other operators may also be overridden")
        for name in NAMES:
            library.impl(name, _kernel(name), "CUDA", **leave)
    return library


def _kernel(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    func = getattr(getattr(aten, packet), overload or "default")

    def make(*args: Any, **kwargs: Any) -> Any:
        kwargs.update(device=torch.device("cpu"), pin_memory=False)
        return charged(func(*args, **kwargs))

    return make
