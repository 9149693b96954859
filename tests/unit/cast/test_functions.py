"""Methods over the original are copied with it; functions over it are refused by name."""

import functools
from types import SimpleNamespace

import pytest
import torch
from support.hosts import Patcher
from support.nets import SIZE, Net, is_near, rows

import headroom
from headroom.cast.functions import reaches_a_part


@pytest.fixture
def x():
    return rows()


def wrapped(net):
    """As packs do it: a new forward that closes over the old one."""
    old = net.forward
    net.forward = lambda x: old(x) * 2


def wrapped_by_a_decorator(net):
    old = net.layer.forward

    @functools.wraps(old)
    def forward(*args, **kwargs):
        return old(*args, **kwargs) + 1

    net.layer.forward = forward


def as_a_partial(net):
    net.layer.forward = functools.partial(torch.nn.Linear.forward, net.last)


def with_a_default(net):
    def forward(x, net=net):
        return net.last(net.first(x))

    net.forward = forward


def with_a_hook(net):
    net.first.register_forward_hook(lambda _layer, _args, out: out + net.last(out))


def in_a_list(net):
    net.steps = [lambda x: net.first(x)]
    net.forward = lambda x: net.steps[0](x)


def in_an_object(net):
    net.tools = SimpleNamespace(step=lambda x: net.first(x), factor=2.0)
    net.forward = lambda x: net.tools.step(x) * net.tools.factor


def over_a_weight(net):
    weight = net.first.weight
    net.first.forward = lambda x: torch.nn.functional.linear(x.to(weight.dtype), weight)


def of_another_module(net):
    net.first.forward = torch.nn.Linear(SIZE, SIZE).forward


@pytest.mark.parametrize("change", [as_a_partial, of_another_module],
                         ids=lambda change: change.__name__)
def test_a_method_over_the_original_works_over_the_copy(change, x):
    torch.manual_seed(6)
    net = Net(torch.nn.Linear(SIZE, SIZE))
    change(net)
    with torch.no_grad():
        expected = net(x)
        copied = headroom.cast(net).value
        assert is_near(copied, net, x) and torch.equal(net(x), expected)
        for weight in copied.parameters():
            weight.zero_()
        assert not torch.equal(net(x), copied(x).float()) and torch.equal(net(x), expected)
        for weight in net.parameters():
            weight.fill_(float("nan"))
        assert copied(x).isfinite().all()


THE_NET = None


def over_a_global(net):
    global THE_NET
    THE_NET = net
    net.forward = lambda x: THE_NET.first(x)


def over_itself(net):
    def forward(x, depth=0):
        return net.first(x) if depth else forward(x, 1)

    net.forward = forward


def behind_a_cache(net):
    inner = net.first.forward
    net.first.forward = functools.lru_cache(lambda x: inner(x))


@pytest.mark.parametrize(("change", "where"), [
    (behind_a_cache, "first.forward"), (over_a_global, "forward"), (over_itself, "forward"),
    (over_a_weight, "first.forward"), (wrapped, "forward"),
    (wrapped_by_a_decorator, "layer.forward"),
    (with_a_default, "forward"), (with_a_hook, "first._forward_hooks"), (in_a_list, "steps"),
    (in_an_object, "tools"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_a_function_over_the_original_is_refused_by_name(change, where):
    net = Net(torch.nn.Linear(SIZE, SIZE))
    change(net)
    with pytest.raises(ValueError, match=f"Net: its {where} is a function over.*If a node"):
        headroom.cast(net)
    assert {weight.dtype for weight in net.parameters()} == {torch.float32}


def test_what_works_on_a_part_is_found_behind_functions_and_objects_and_not_behind_patchers():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4))
    manager = SimpleNamespace(hooks=[SimpleNamespace(module=module[0])])

    def inject(_patcher):
        return manager.hooks

    assert reaches_a_part({"lora": [SimpleNamespace(inject=inject)]}, module)
    assert not reaches_a_part([Patcher(module), torch.nn.Linear(4, 4), lambda: None], module)
