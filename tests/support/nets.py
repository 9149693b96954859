"""A net around one layer, its input, and a check that a cast of it computes nearly the same."""

import torch

SIZE = 16


class Net(torch.nn.Module):
    """A small model around one layer."""

    def __init__(self, layer):
        super().__init__()
        self.first = torch.nn.Linear(SIZE, SIZE)
        self.layer = layer
        self.last = torch.nn.Linear(SIZE, SIZE)

    def forward(self, x):
        return self.last(self.layer(self.first(x)))


def rows():
    """Four rows for a net, always the same."""
    return torch.randn(4, SIZE, generator=torch.Generator().manual_seed(4))


def is_near(copied, net, x):
    """Whether both make about the same of `x`."""
    with torch.no_grad():
        expected, found = net(x), copied(x)
    return (found.float() - expected).norm() / expected.norm() < 0.02
