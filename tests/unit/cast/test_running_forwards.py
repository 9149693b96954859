"""A module that reaches into its layers with float buffers of its own runs after a cast."""

import pytest
import torch
from support.nets import SIZE, Net, is_near, rows
from torch.nn import functional

import headroom
from headroom.cast.model import cast_module
from headroom.cast.rules import CastRules


class Block(torch.nn.Module):
    """A module with a layer inside and a float buffer of its own; each subclass has a forward."""

    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(SIZE, SIZE)
        self.register_buffer("scale", torch.rand(SIZE, SIZE) + 0.5)


def block(forward):
    return type("Made", (Block,), {"forward": forward})


FORWARDS = {
    "the weight of a layer times a buffer": block(
        lambda self, x: functional.linear(x, self.proj.weight * self.scale)),
    "by an operator": block(lambda self, x: x @ (self.scale @ self.proj.weight.float())),
    "by a buffer alone": block(lambda self, x: self.proj(x) @ self.scale),
    "in an einsum": block(
        lambda self, x: torch.einsum("bi,oi->bo", x, self.proj.weight - self.scale)),
    "a buffer in the dtype of the input": block(
        lambda self, x: functional.linear(x, self.proj.weight * self.scale.to(x.dtype))),
    "a weight beside a buffer": block(
        lambda self, x: functional.linear(x, self.proj.weight) * self.scale[0]),
    "a comparison with a buffer": block(
        lambda self, x: torch.where(self.scale[0] > 1, self.proj(x), x)),
}


@pytest.fixture
def x():
    return rows()


@pytest.mark.parametrize("name", FORWARDS)
def test_a_module_that_reaches_into_its_layers_is_cast_and_runs(name, x):
    torch.manual_seed(5)
    net = Net(FORWARDS[name]())
    done = headroom.cast(net)
    assert is_near(done.value, net, x)
    assert {weight.dtype for weight in done.value.parameters()} == {torch.bfloat16}


def test_a_component_runs_though_a_float_buffer_widens_a_layers_input(x):
    torch.manual_seed(5)
    net = Net(block(lambda self, x: self.proj(x * self.scale[0]))())
    done = cast_module(net, CastRules(torch.bfloat16), is_component=True)
    assert is_near(lambda x: done.copies[id(net)](x.bfloat16()), net, x)
    assert {weight.dtype for weight in done.copies[id(net)].parameters()} == {torch.bfloat16}


class Blur(torch.nn.Module):
    """A layer without weights: an upscaler's filter is one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.rand(3, 1, 3, 3))

    def forward(self, x):
        return functional.conv2d(x, self.kernel, groups=3)


class Filter(torch.nn.Module):
    """Holds the layer between two others, and its own: each subclass has a forward."""

    def __init__(self):
        super().__init__()
        self.first, self.blur = torch.nn.Conv2d(3, 3, 3), Blur()
        self.kernel = torch.rand(3, 1, 3, 3)

    def forward(self, x):
        return self.blur(self.first(x))


class ReadsTheBuffer(Filter):
    def forward(self, x):
        return functional.conv2d(self.first(x), self.blur.kernel, groups=3)


class ReadsAnAttribute(Filter):
    def forward(self, x):
        return functional.conv2d(self.first(x), self.kernel, groups=3)


@pytest.mark.parametrize("kind", [Filter, ReadsTheBuffer, ReadsAnAttribute])
def test_a_module_that_computes_with_float_tensors_of_its_own_runs_near_the_original(kind):
    model, x = kind().eval().requires_grad_(False), torch.rand(1, 3, 9, 9)
    expected = model(x)
    result = headroom.cast(model).value(x)
    assert (result.float() - expected).norm() / expected.norm() < 0.02


def test_a_filter_without_weights_keeps_no_weight_around_it_from_the_cast():
    done = headroom.cast(Filter())
    assert {weight.dtype for weight in done.value.parameters()} == {torch.bfloat16}
    assert done.value.blur.kernel.dtype == torch.float32
