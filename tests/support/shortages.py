"""Failed calls of which the needed and the available bytes are known."""

import torch

from headroom.guard.lack import Lack

GPU = torch.device("cuda:0")


def lacking(need=1000, room=300):
    return Lack("device", GPU, 10, need - room, need, room)
