"""Layers of every kind, each with a forward over weights and a buffer of its own."""

import torch
from torch.nn import functional

from support.nets import SIZE


class Layer(torch.nn.Module):
    """Weights of all shapes; each kind has a forward over them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(SIZE) + torch.randn(SIZE, SIZE) / 16)
        self.gain = torch.nn.Parameter(torch.rand(SIZE) + 0.5)
        self.proj = torch.nn.Linear(SIZE, SIZE)
        self.codes = torch.nn.ParameterList([torch.randn(32, SIZE)])
        self.register_buffer("scale", torch.rand(SIZE, SIZE) + 0.5)

    def projected(self, x):
        return self.proj(x)

    def decode(self, rows):
        return functional.linear(torch.ones(len(rows), SIZE), self.weight) + self.codes[0][rows]


@torch.jit.script
def scripted(x, weight):
    return torch.mm(x, weight)


class Multiplied(torch.autograd.Function):
    @staticmethod
    def forward(_context, x, weight):
        return x.mm(weight)


def in_place(self, x):
    made = self.weight * 1.0
    made.addmm_(torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE), alpha=0.01)
    return x @ made


def into_rows(self, x):
    made = torch.zeros(4, SIZE)
    made[torch.arange(4)] = self.proj(x)
    return made.index_add_(0, torch.tensor([0, 1, 1, 3]), self.proj(x))


def into_out(self, x):
    made = torch.zeros_like(self.proj(x))
    torch.mm(x, self.weight, out=made)
    return made * self.gain


def state_by_state(self, x):
    state = torch.zeros(SIZE)
    states = []
    for row in x:
        state = torch.mv(self.weight, state) + torch.mv(self.proj.weight, row)
        states.append(state)
    return torch.stack(states)


def rotated(self, x):
    turns = torch.polar(torch.ones(SIZE // 2), torch.arange(SIZE // 2).float())
    pairs = torch.view_as_complex(self.proj(x).reshape(4, SIZE // 2, 2))
    return torch.view_as_real(pairs * turns).flatten(1) * self.gain


def lowest_rank(self, x):
    left, values, right = torch.linalg.svd(self.weight)
    return x @ (left * values @ right)


KINDS = {
    "decides by a shape": lambda self, x: x.mm(self.weight) if x.shape[1] == SIZE else x,
    "a constant times a weight": lambda self, x: torch.ones(4, SIZE) @ self.weight + x * self.gain,
    "a constant in a linear layer": lambda self, x: functional.linear(
        torch.tensor([[1.0] * SIZE] * 4), self.proj.weight, self.proj.bias) + x,
    "positions": lambda self, x: self.proj(
        x + torch.sin(torch.arange(4).float()[:, None] @ self.gain[None])),
    "the nearest code": lambda self, x: x + self.codes[0][
        torch.cdist(x.float(), self.codes[0]).argmin(1)],
    "a list of weights": lambda self, x: torch.tanh(x @ self.codes[0].t()),
    "an inverse": lambda self, x: x @ torch.linalg.inv(self.weight),
    "singular values": lowest_rank,
    "equations": lambda self, x: torch.linalg.solve(self.weight, x.t()).t(),
    "a Fourier transform of a weight": lambda self, x: torch.fft.ifft(
        torch.fft.fft(x) * torch.fft.fft(self.gain)).real,
    "a Fourier transform of an activation": lambda self, x: torch.fft.fft(self.proj(x)).real,
    "complex numbers": rotated,
    "a quantile": lambda self, x: self.proj(x) / torch.quantile(self.proj(x).abs(), 0.9),
    "a state from nothing": state_by_state,
    "written into rows": into_rows,
    "written in place": in_place,
    "written into a result": into_out,
    "scattered": lambda self, x: torch.zeros_like(x).scatter_add(
        1, torch.zeros(4, SIZE, dtype=torch.long), self.proj(x)),
    "a lerp to a constant": lambda self, x: torch.lerp(self.proj(x), torch.ones(4, SIZE), 0.25),
    "a masked write": lambda self, x: self.proj(x).masked_scatter(
        torch.eye(SIZE)[:4].bool(), torch.ones(SIZE)) * self.gain,
    "over numpy": lambda self, x: x @ torch.from_numpy(self.weight.detach().numpy() * 2),
    "a mask of attention": lambda self, x: functional.scaled_dot_product_attention(
        self.proj(x)[None], self.proj(x)[None], x[None] * self.gain, torch.zeros(4, 4))[0],
    "a norm in float32": lambda self, x: functional.layer_norm(x.float(), (SIZE,), self.gain),
    "a slope": lambda self, x: functional.prelu(x, self.gain),
    "three factors": lambda self, x: torch.einsum("bi,i,ij->bj", x, self.gain, self.weight),
    "its own float32": lambda self, x: functional.linear(x.float(), self.weight.float()),
    "a scripted function": lambda self, x: scripted(x.float(), self.weight),
    "a function of autograd": lambda self, x: Multiplied.apply(x.float(), self.weight),
    "an operator itself": lambda self, x: torch.ops.aten.mm(x.float(), self.weight),
    "row by row": lambda self, x: torch.vmap(lambda row: torch.mv(self.weight, row))(x.float()),
    "weights from a layer": lambda self, x: torch.func.functional_call(
        self.proj, {"weight": self.proj.weight * x.mean(), "bias": torch.zeros(SIZE)}, (x,)),
    "a layer's weight times a buffer": lambda self, x: functional.linear(
        x, self.proj.weight * self.scale),
    "by an operator": lambda self, x: x @ (self.scale @ self.proj.weight.float()),
    "by a buffer alone": lambda self, x: self.proj(x) @ self.scale,
    "in an einsum": lambda self, x: torch.einsum("bi,oi->bo", x, self.proj.weight - self.scale),
    "a buffer in the dtype of the input": lambda self, x: functional.linear(
        x, self.proj.weight * self.scale.to(x.dtype)),
    "a weight beside a buffer": lambda self, x: functional.linear(
        x, self.proj.weight) * self.scale[0],
    "a comparison with a buffer": lambda self, x: torch.where(
        self.scale[0] > 1, self.proj(x), x),
}


def layer(name="decides by a shape"):
    torch.manual_seed(5)
    return type("Made", (Layer,), {"forward": KINDS[name]})().requires_grad_(False)
