"""A node that keeps 50 MiB of each run in its module, and one that takes as much and keeps none."""

import torch

from .waiting import Node

KEPT = []
BYTES = 50 << 20


class TimedLeakInModule(Node):
    RETURN_TYPES, OUTPUT_NODE = (), True
    INPUTS = {"turn": ("INT", {"default": 0, "max": 1000})}

    def run(self, turn):
        KEPT.append(torch.ones(BYTES, dtype=torch.uint8))
        return ()


class TimedLeakNone(TimedLeakInModule):
    """Takes as much, frees all of it, and drops what the module holds."""

    def run(self, turn):
        torch.ones(BYTES, dtype=torch.uint8)
        KEPT.clear()
        return ()
