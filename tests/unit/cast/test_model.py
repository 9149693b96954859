"""A cast model runs with its own weights; what Cast bf16 cannot cast is refused by name."""

import pytest
import torch
from support.nets import SIZE, Net, is_near, rows
from torch.nn.utils import parametrizations

import headroom


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
    return rows()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_cast_model_runs_and_stays_near_the_original(name, mode, dtype, x):
    torch.manual_seed(5)
    net = Net(LAYERS[name]())
    net.train(mode == "train")
    with torch.no_grad():
        net(x)  # spectral_norm turns its vectors at each step of training
    copied = headroom.cast(net, dtype).value
    assert is_near(copied, net, x)
    assert copied.first.weight.dtype == copied.last.weight.dtype == getattr(torch, dtype)


@pytest.mark.parametrize("name", ["a layer with a float buffer", "spectral_norm as a hook",
                                  "spectral_norm as a parametrization"])
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
