"""The copy that a cast makes is a module as the original is: copied, cast again, pickled."""

import copy
import inspect
import pickle
import types

import pytest
import torch
from support.layer_kinds import KINDS, Layer, layer
from support.nets import rows

import headroom


@pytest.fixture
def x():
    return rows()


def test_the_copy_is_copied_and_cast_again_like_the_original(x):
    done = headroom.cast(layer()).value
    again = copy.deepcopy(done)
    assert type(again) is type(done) and torch.equal(again(x), done(x))
    assert inspect.signature(done.forward) == inspect.signature(layer().forward)
    wide = headroom.cast(done, "float32").value
    assert type(wide) is type(done) and wide(x).dtype == torch.float32
    other = layer()  # with a method of a pack, which both copies keep
    other.forward = types.MethodType(lambda self, x: 2 * type(self).forward(self, x), other)
    again = headroom.cast(headroom.cast(other).value, "float32").value
    assert torch.equal(again(x), 2 * wide(x))
    assert "forward" not in vars(layer()) and torch.autocast not in vars(Layer).values()


def test_the_copy_of_a_class_that_can_be_found_by_its_name_can_be_pickled(x):
    torch.manual_seed(5)
    done = headroom.cast(Findable().requires_grad_(False)).value
    again = pickle.loads(pickle.dumps(done))
    assert torch.equal(again(x), done(x)) and again.weight.dtype == torch.bfloat16


class Findable(Layer):
    forward = KINDS["a constant times a weight"]


def test_a_cast_registers_no_class_where_classes_keep_a_registry(x):
    heard = []

    class Listed(Layer):
        forward = Layer.projected

        def __init_subclass__(cls, **_):
            heard.append(cls)

    net = torch.nn.Sequential(Listed().requires_grad_(False))
    assert headroom.cast(net).value(x).isfinite().all() and not heard
