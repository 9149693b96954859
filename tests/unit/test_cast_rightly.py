"""What Cast bf16 casts runs and uses its own weights; what it cannot cast is refused by name."""

import functools
from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils import parametrizations

import headroom

SIZE = 16


class Mixing(torch.nn.Module):
    """A layer that multiplies its weight with a float buffer."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(SIZE, SIZE))
        self.register_buffer("basis", torch.randn(SIZE, SIZE))

    def forward(self, x):
        return x @ (self.weight @ self.basis)


class MixingWithChild(Mixing):
    """The same, with a layer inside."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(SIZE, SIZE)

    def forward(self, x):
        return super().forward(self.linear(x))


class Net(torch.nn.Module):
    """Something that can be cast around the layer in question."""

    def __init__(self, layer):
        super().__init__()
        self.first = torch.nn.Linear(SIZE, SIZE)
        self.layer = layer
        self.last = torch.nn.Linear(SIZE, SIZE)

    def forward(self, x):
        return self.last(self.layer(self.first(x)))


def old_spectral_norm():
    return torch.nn.utils.spectral_norm(torch.nn.Linear(SIZE, SIZE))


def new_spectral_norm():
    return parametrizations.spectral_norm(torch.nn.Linear(SIZE, SIZE))


LAYERS = {
    "a layer with a float buffer": Mixing,
    "a module with a float buffer": MixingWithChild,
    "spectral_norm as a hook": old_spectral_norm,
    "spectral_norm as a parametrization": new_spectral_norm,
    "spectral_norm without a bias": lambda: parametrizations.spectral_norm(
        torch.nn.Linear(SIZE, SIZE, bias=False)),
    "weight_norm as a hook": lambda: torch.nn.utils.weight_norm(torch.nn.Linear(SIZE, SIZE)),
    "weight_norm as a parametrization": lambda: parametrizations.weight_norm(
        torch.nn.Linear(SIZE, SIZE)),
    "batch norm": lambda: torch.nn.BatchNorm1d(SIZE),
    "a buffer of one number": lambda: with_buffer(torch.nn.Linear(SIZE, SIZE), torch.tensor(1.0)),
    "an integer buffer": lambda: with_buffer(torch.nn.Linear(SIZE, SIZE), torch.arange(3)),
}


def with_buffer(layer, buffer):
    layer.register_buffer("beside", buffer)
    return layer


@pytest.fixture
def x():
    return torch.randn(4, SIZE, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_what_was_cast_runs_and_stays_near_the_original(name, mode, dtype, x):
    torch.manual_seed(5)
    net = Net(LAYERS[name]())
    net.train(mode == "train")
    with torch.no_grad():
        net(x)  # spectral_norm turns its vectors at each step of training
        copied = headroom.cast(net, dtype).value
        expected, found = net(x), copied(x)
    assert (found.float() - expected).norm() / expected.norm() < 0.02
    assert copied.first.weight.dtype == copied.last.weight.dtype == getattr(torch, dtype)


@pytest.mark.parametrize("name", ["a layer with a float buffer", "a module with a float buffer",
                                  "spectral_norm as a hook", "spectral_norm as a parametrization"])
def test_a_layer_that_mixes_weights_and_float_buffers_stays_whole_and_the_report_says_so(name):
    net = Net(LAYERS[name]())
    with torch.no_grad():
        net(torch.ones(1, SIZE))
    done = headroom.cast(net)
    assert {weight.dtype for weight in done.value.layer.parameters()} == {torch.float32}
    assert "kept in float32 (float buffers beside the weights)" in done.report.text


def test_a_module_that_is_such_a_layer_comes_back_as_it_is_with_the_reason():
    layer = Mixing()
    done = headroom.cast(layer)
    assert done.value is layer
    assert done.report.headline == (
        "0 MiB saved: every weight is kept (float buffers beside the weights)"
    )


# ---------------------------------------------------------------- functions over the original


def wrapped(net):
    """As packs do it: a new forward that closes over the old one."""
    old = net.forward
    net.forward = lambda x: old(x) * 2


def wrapped_twice(net):
    wrapped(net)
    wrapped(net)


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


@pytest.mark.parametrize("change", [over_a_weight, wrapped, wrapped_twice,
                                    wrapped_by_a_decorator, as_a_partial, with_a_default,
                                    with_a_hook, in_a_list, in_an_object],
                         ids=lambda change: change.__name__)
def test_a_function_over_the_original_works_over_the_copy(change, x):
    torch.manual_seed(6)
    net = Net(torch.nn.Linear(SIZE, SIZE))
    change(net)
    with torch.no_grad():
        expected = net(x)
        copied = headroom.cast(net).value
        assert (copied(x).float() - expected).norm() / expected.norm() < 0.02
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


def over_a_global_in_an_object(net):
    over_a_global(net)
    net.tools = SimpleNamespace(step=vars(net).pop("forward"))


def behind_a_cache(net):
    inner = net.first.forward
    net.first.forward = functools.lru_cache(lambda x: inner(x))


def of_another_module(net):
    net.first.forward = torch.nn.Linear(SIZE, SIZE).forward


@pytest.mark.parametrize("change", [behind_a_cache, of_another_module, over_a_global, over_itself,
                                    over_a_global_in_an_object],
                         ids=lambda change: change.__name__)
def test_a_function_that_cannot_be_repointed_is_refused_by_name(change):
    net = Net(torch.nn.Linear(SIZE, SIZE))
    change(net)
    with pytest.raises(ValueError, match=r"Net: its (first\.)?(forward|tools) is a function over"):
        headroom.cast(net)
    assert {weight.dtype for weight in net.parameters()} == {torch.float32}


# ---------------------------------------------------------------- refused by name


class Gate(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return x


@pytest.mark.parametrize(("layer", "why"), [
    (lambda: torch.jit.script(torch.nn.Linear(SIZE, SIZE)), "layer is TorchScript"),
    (lambda: torch.jit.trace(torch.nn.Linear(SIZE, SIZE), torch.ones(1, SIZE)),
     "layer is TorchScript"),
    (lambda: torch.compile(torch.nn.Linear(SIZE, SIZE)), "layer is compiled"),
    (lambda: Gate(torch.eye(SIZE).to_sparse()), "layer.weight is a sparse_coo tensor"),
    (lambda: Gate(torch.eye(SIZE).to_sparse_csr()), "layer.weight is a sparse_csr tensor"),
    (lambda: torch.nn.LazyLinear(SIZE), "layer.weight has no shape"),
], ids=["scripted", "traced", "compiled", "sparse", "sparse csr", "lazy"])
def test_what_cannot_be_cast_is_refused_by_name_before_anything_changes(layer, why):
    net = Net(layer())
    with pytest.raises(ValueError, match=f"Cast bf16 cannot cast this Net: {why}.*connect a plain"):
        headroom.cast(net)
    assert net.first.weight.dtype == torch.float32


def test_a_whole_model_of_torchscript_is_refused():
    with pytest.raises(ValueError, match="it is TorchScript"):
        headroom.cast(torch.jit.script(torch.nn.Linear(SIZE, SIZE)))
