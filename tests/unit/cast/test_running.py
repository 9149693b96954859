"""Layers of every kind run after a cast, near the original, by the weights that were cast."""

import copy
import pickle

import pytest
import torch
from torch.nn import functional

import headroom
from headroom.cast.model import cast_module
from headroom.cast.rules import CastRules

SIZE = 16


class Layer(torch.nn.Module):
    """Weights of all shapes; each kind has a forward over them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(SIZE) + torch.randn(SIZE, SIZE) / 16)
        self.gain = torch.nn.Parameter(torch.rand(SIZE) + 0.5)
        self.proj = torch.nn.Linear(SIZE, SIZE)
        self.codes = torch.nn.ParameterList([torch.randn(32, SIZE)])

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
}


# Autocast takes no part in these: torch's own error, and a sentence of ours before it.
REFUSED = {
    "a state from nothing": "(expected scalar type|must have the same dtype)",
    "written into rows": "Index put requires",
    "written in place": "must have the same dtype", "written into a result": "Expected out tensor",
    "scattered": "scatter\\(\\): Expected", "a lerp to a constant": "expected dtype",
    "a masked write": "expected self and source", "over numpy": "unsupported ScalarType",
    "a norm in float32": "mixed dtype",  # on a CPU; a GPU has a kernel for it
}


def layer(name="decides by a shape"):
    torch.manual_seed(5)
    return type("Made", (Layer,), {"forward": KINDS[name]})().requires_grad_(False)


class Held(torch.nn.Module):
    """A layer in the model of a pack."""

    def __init__(self, held):
        super().__init__()
        self.held, self.last = held, torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.last(self.held(x)[:, :1])


@pytest.fixture
def x():
    return torch.randn(4, SIZE, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside"])
@pytest.mark.parametrize("name", [name for name in KINDS if name not in REFUSED])
def test_a_layer_of_any_kind_runs_near_the_original_by_the_cast_weights(name, inside, x):
    net = torch.nn.Sequential(layer(name), torch.nn.Identity()) if inside else layer(name)
    copied = headroom.cast(net).value
    with torch.inference_mode():
        expected, found = net(x), copied(x)
        assert (found.float() - expected).norm() / expected.norm() < 0.03
        assert {weight.dtype for weight in copied.parameters()} == {torch.bfloat16}
        for weight in copied.parameters():
            weight.mul_(1.5)
        assert not torch.allclose(copied(x), found) and torch.equal(net(x), expected)


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_of_torch_follows_one_sentence_that_says_what_to_do(name, x):
    net = layer(name)
    with torch.inference_mode(), pytest.raises((RuntimeError, TypeError), match=(
            f"^Cast bf16 made this Made bfloat16, .* keep_float32, .*PyTorch: .*{REFUSED[name]}")):
        headroom.cast(net).value(x)


@pytest.mark.parametrize("name", KINDS)
def test_a_part_of_which_every_weight_is_kept_computes_in_float32_to_the_last_bit(name, x):
    net = Held(layer(name)).requires_grad_(False)
    copied = headroom.cast(net, keep_float32="held.").value
    assert copied.last.weight.dtype == torch.bfloat16
    with torch.inference_mode():
        found = copied.held(x)
        assert torch.equal(found, net.held(x).to(torch.bfloat16)) and copied(x).isfinite().all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_methods_other_than_forward_run_too(dtype):
    net, rows = layer(), torch.tensor([3, 4])
    expected, found = net.decode(rows), headroom.cast(net, dtype).value.decode(rows)
    assert (found.float() - expected).norm() / expected.norm() < 0.03


def test_a_component_whose_caller_knows_the_dtype_runs_too(x):
    net = layer("a constant times a weight")
    copied = cast_module(net, CastRules(torch.bfloat16), is_component=True).copies[id(net)]
    assert (copied(x.bfloat16()).float() - net(x)).norm() / net(x).norm() < 0.03


def test_other_errors_out_of_memory_and_interrupts_pass_once_and_leave_nothing_behind(x):
    class Interrupt(BaseException):
        pass

    calls = []
    for error in (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 bytes, dtype"),
                  RuntimeError("something else"), Interrupt("expected dtype")):
        text = str(error)

        def fails(*_, error=error):
            calls.append(error)
            raise error

        net = layer()
        type(net).forward = lambda self, x, fails=fails: torch.vmap(fails)(x * self.gain)
        with pytest.raises(type(error)) as caught:
            headroom.cast(net).value(x)
        assert caught.value is error and str(error) == text
        assert not torch.is_autocast_cpu_enabled()
    assert len(calls) == 3


def test_a_call_that_fails_in_every_dtype_raises_torchs_first_error(x):
    net = layer()
    type(net).forward = lambda self, x: torch.linalg.cholesky(self.weight * -1) @ x.mm(self.gain)
    with pytest.raises((RuntimeError, NotImplementedError), match="BFloat16|positive-definite"):
        headroom.cast(net).value(x)


def test_the_copy_is_copied_and_cast_again_like_the_original(x):
    done = headroom.cast(layer()).value
    again = copy.deepcopy(done)
    assert type(again) is type(done) and torch.equal(again(x), done(x))
    wide = headroom.cast(done, "float32").value
    assert type(wide) is type(done) and wide(x).dtype == torch.float32
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
