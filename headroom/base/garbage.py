"""Python's garbage collector, and what it need not look at."""

import gc

import torch

from .living import living

_NO_MODEL_BYTES = 16 << 20  # tables and constants of what was imported: far less than that


def settle() -> None:
    """Collect garbage, and leave everything that is alive now out of all later collections.

    For the moment at which a server has imported everything and loaded no model; where a pack has
    loaded one, nothing is left out, since what is left out goes with its last reference as before,
    but not when only a circle holds it. A collection holds every thread while it walks: over the
    half million functions, classes and modules of a ComfyUI without other packs for 0.3 s, over
    what comes later for some milliseconds. Costs one such collection.
    """
    gc.collect()
    if sum(tensor.numel() * tensor.itemsize for tensor in living(torch.Tensor)) < _NO_MODEL_BYTES:
        gc.freeze()
