"""Nodes that keep 50 MiB of each run: in their module, on their object, as frames of a video."""

import numpy as np
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


class TimedLeakOnNode(TimedLeakInModule):
    def work(self, turn):
        self.__dict__.setdefault("kept", []).append(np.ones(BYTES, np.uint8))
        return ()


class TimedLeakFrames(TimedLeakInModule):
    """Frames of a video, as an encoder is fed with them."""

    def work(self, turn):
        frames = self.__dict__.setdefault("videos", {}).setdefault(turn, [])
        frames += [np.ones((BYTES // 50,), np.uint8).tobytes() for _ in range(50)]
        return ()


class TimedLeakNone(TimedLeakInModule):
    """Takes as much, frees all of it, and drops what the module holds."""

    def work(self, turn):
        torch.ones(BYTES, dtype=torch.uint8)
        KEPT.clear()
        return ()
