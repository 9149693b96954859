"""Layers of every kind run after a cast, near the original, by the weights that were cast."""

import pytest
import torch
from support.layer_kinds import KINDS, layer
from support.nets import rows
from torch.nn import functional

import headroom
from headroom.cast.model import cast_module
from headroom.cast.rules import CastRules

# Autocast takes no part in these: torch's own error, and a sentence of ours before it.
REFUSED = {
    "a state from nothing": "(expected scalar type|must have the same dtype)",
    "written into rows": "Index put requires",
    "written in place": "must have the same dtype", "written into a result": "Expected out tensor",
    "scattered": "scatter\\(\\): Expected", "a lerp to a constant": "expected dtype",
    "a masked write": "expected self and source", "over numpy": "unsupported ScalarType",
    "a norm in float32": "mixed dtype",  # on a CPU; a GPU has a kernel for it
}


class Held(torch.nn.Module):
    """A layer in the model of a pack."""

    def __init__(self, held):
        super().__init__()
        self.held, self.last = held, torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.last(self.held(x)[:, :1])


@pytest.fixture
def x():
    return rows()


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


@pytest.mark.parametrize("name", ["a constant times a weight", "a weight beside a buffer"])
def test_a_component_whose_caller_knows_the_dtype_runs_too(x, name):
    net = layer(name)
    copied = cast_module(net, CastRules(torch.bfloat16), is_component=True).copies[id(net)]
    assert (copied(x.bfloat16()).float() - net(x)).norm() / net(x).norm() < 0.03


class PlainInComfyUI(Held):
    """As ComfyUI's wav2vec2: a layer of torch's own, which cannot cast its weights to the input."""

    __module__ = "comfy.audio_encoders.wav2vec2"


class LinearOfComfyUI(torch.nn.Linear):
    """As that of a model which computes in the dtype of its weights; KJNodes' NAG keeps a tensor
    in the dtype before the cast and gives it to such a layer."""

    __module__ = "comfy.ops"


@pytest.mark.parametrize("kind", [torch.nn.Linear, LinearOfComfyUI])
def test_a_linear_layer_in_a_model_of_comfyui_takes_inputs_of_any_dtype(x, kind):
    net = PlainInComfyUI(kind(x.shape[-1], 2))
    copied = cast_module(net, CastRules(torch.bfloat16), is_component=True).copies[id(net)]
    assert torch.allclose(copied(x).float(), net(x), atol=0.05)


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
