"""What the tests of the simulated GPU share."""

import torch

KIB, MIB = 1 << 10, 1 << 20
GPU = "cuda"


def used(device) -> int:
    """Bytes in use, without the help of the garbage collector."""
    return device.figures().allocated_bytes


def floats(kib: int):
    return torch.zeros(kib * 256, device=GPU)


class Net(torch.nn.Module):
    """Parameters and buffers, of floating point and of integers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, value):
        return self.norm(self.first(value))
