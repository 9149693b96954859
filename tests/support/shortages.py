"""Failures whose need and room are known."""

import torch

from headroom.guard.shortage import Shortage

GPU = torch.device("cuda:0")


def lacking(need=1000, room=300):
    return Shortage("device", GPU, 10, need - room, need, room)
