"""A module with layers of several kinds; compares its state bit for bit."""

import torch


class Block(torch.nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.linear = torch.nn.Linear(size, size)
        self.conv = torch.nn.Conv1d(size, size, 3, padding=1)
        self.attention = torch.nn.MultiheadAttention(size, 4, batch_first=True)
        self.gain = torch.nn.Parameter(torch.full((size,), 0.5))
        self.register_buffer("table", torch.linspace(0, 1, size))
        self.dtype = torch.float32

    def forward(self, x):
        x = self.linear(self.norm(x)) * self.gain + x
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return x + self.attention(x, x, x)[0]


def state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same_state(module, before):
    now = module.state_dict()
    return set(now) == set(before) and all(
        torch.equal(now[name], before[name]) and now[name].dtype == before[name].dtype
        for name in before
    )


class Quantised(torch.Tensor):
    """Weights of a class of their own, as quantisers make them."""
