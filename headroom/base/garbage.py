"""Python's garbage collector, and the objects that it can skip."""

import gc

import torch

from .living import living

_NO_MODEL_BYTES = 16 << 20  # tables and constants of imported code are far smaller


def settle() -> None:
    """Collect garbage, and exclude everything that is alive now from all later collections.

    Call it when a server has imported everything and loaded no model. If a pack has loaded one,
    nothing is excluded: an excluded object is still freed with its last reference, but not if only
    a reference cycle holds it. A collection stops every thread while it walks over all objects. For
    the half million functions, classes and modules of a ComfyUI without other packs that takes
    0.3 s; for later objects some milliseconds. It costs one such collection.
    """
    gc.collect()
    if sum(tensor.numel() * tensor.itemsize for tensor in living(torch.Tensor)) < _NO_MODEL_BYTES:
        gc.freeze()
