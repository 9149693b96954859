"""A node that keeps 50 MiB of each run in its module, and one that takes as much and keeps none."""

import torch

KEPT = []
BYTES = 50 << 20


class TimedLeakInModule:
    CATEGORY, FUNCTION, RETURN_TYPES, OUTPUT_NODE = "test", "work", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"turn": ("INT", {"default": 0, "max": 1000})}}

    def work(self, turn):
        KEPT.append(torch.ones(BYTES, dtype=torch.uint8))
        return ()


class TimedLeakNone(TimedLeakInModule):
    """Takes as much, frees all of it, and drops what the module holds."""

    def work(self, turn):
        torch.ones(BYTES, dtype=torch.uint8)
        KEPT.clear()
        return ()
