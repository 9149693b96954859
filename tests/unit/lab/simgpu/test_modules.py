"""Modules, state dicts and files on the simulated GPU, with gradients and without."""

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="the simulated GPU needs torch")
from support.simulated import GPU, KIB, Net, floats, used  # noqa: E402


def test_a_module_moves_to_the_device_and_back(device, mode):
    net, value = Net().eval(), torch.ones(2, 16)
    expected = net(value)
    net.to(GPU)
    assert {p.device.type for p in [*net.parameters(), *net.buffers()]} == {GPU}
    assert all(isinstance(p, torch.nn.Parameter) for p in net.parameters())
    charged = used(device)
    assert charged >= sum(t.untyped_storage().nbytes() for t in net.state_dict().values())
    assert torch.allclose(net(value.to(GPU)).cpu(), expected, atol=1e-6)
    net.to("cpu")
    assert used(device) == 0
    assert torch.equal(net(value), expected)


@pytest.mark.parametrize("make", [
    lambda: Net().to(GPU), lambda: torch.nn.Linear(16, 16, device=GPU),
], ids=["loaded", "made"])
def test_a_module_of_inference_mode_can_be_moved_where_it_is_and_unloaded_outside_it(device, make):
    with torch.inference_mode():
        net = make()
    net.to(GPU)
    assert {p.device.type for p in net.parameters()} == {GPU}
    net.to("cpu")
    assert used(device) == 0
    assert {p.device.type for p in net.parameters()} == {"cpu"}


def test_a_module_can_change_its_number_type_on_the_device(device, mode):
    net = Net().to(GPU).to(torch.float16)
    assert net.first.weight.dtype == torch.float16 and net.first.weight.is_cuda


def test_a_deep_copy_is_charged_and_independent(device, mode):
    net = Net().to(GPU)
    before = used(device)
    copied = copy.deepcopy(net)
    assert used(device) == 2 * before
    assert isinstance(copied.first.weight, torch.nn.Parameter)
    copied.first.weight.data.fill_(3)
    assert net.first.weight.max().item() < 3
    shared = floats(1)
    pair = copy.deepcopy([shared, shared])
    assert pair[0] is pair[1]


def test_a_state_dict_is_views_and_loads_back(device, mode):
    net, other = Net().to(GPU), Net()
    before = used(device)
    state = net.state_dict()
    assert used(device) == before
    other.load_state_dict(state)
    assert torch.equal(other.first.weight, net.first.weight.cpu())


def test_weights_load_from_safetensors_straight_to_the_device(device, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    weights = {"a": torch.arange(256.0), "b": torch.ones(3, dtype=torch.bfloat16)}
    safetensors.save_file(weights, tmp_path / "w.safetensors")
    loaded = safetensors.load_file(tmp_path / "w.safetensors", device="cuda:0")
    assert loaded["a"].is_cuda and torch.equal(loaded["a"].cpu(), weights["a"])
    assert used(device) == KIB + 512
    safetensors.save_file(loaded, tmp_path / "again.safetensors")
    again = safetensors.load_file(tmp_path / "again.safetensors")
    assert torch.equal(again["b"], weights["b"])


@pytest.mark.parametrize(("made_on", "how"), [
    (GPU, {"weights_only": False}), ("cpu", {"map_location": GPU}),
], ids=["pickled there", "loaded straight to it"])
def test_a_tensor_survives_a_checkpoint_file(device, made_on, how):
    buffer = io.BytesIO()
    torch.save({"state": [torch.arange(4.0, device=made_on)]}, buffer)
    buffer.seek(0)
    (weight,) = torch.load(buffer, **how)["state"]
    assert weight.is_cuda and weight.tolist() == [0, 1, 2, 3]


class Layers(torch.nn.Module):
    """One weight that is used through a view, one that is used as it is."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4, bias=False)
        self.convolution = torch.nn.Conv1d(4, 4, 1)


@pytest.mark.parametrize("layer", ["linear", "convolution"])
def test_a_layer_used_with_gradients_on_says_that_there_are_none(device, layer):
    module = getattr(Layers().to(GPU), layer)
    with pytest.raises(RuntimeError, match=r"no gradients.*torch\.inference_mode"):
        module(torch.ones(4, 4, device=GPU))
    with torch.no_grad():
        assert module(torch.ones(4, 4, device=GPU)).shape == (4, 4)


def test_a_module_keeps_what_requires_gradients_wherever_it_moves_with_gradients_on(device):
    net = Layers()
    net.linear.weight.requires_grad_(False)
    wanted = [p.requires_grad for p in net.parameters()]
    plain = {name: value.clone() for name, value in net.state_dict().items()}
    net.to(GPU)
    copied = copy.deepcopy(net)
    for module in (net, copied, copied.to("cpu"), net.to(torch.float64).to(torch.float32)):
        assert [p.requires_grad for p in module.parameters()] == wanted
        assert all(isinstance(p, torch.nn.Parameter) for p in module.parameters())
        state = module.state_dict()
        assert not any(value.requires_grad for value in state.values())
        assert all(torch.equal(value.cpu(), plain[name]) for name, value in state.items())
    copied.convolution(torch.ones(4, 4)).sum().backward()
    assert copied.convolution.weight.grad is not None


def test_a_weight_that_requires_gradients_is_copied_and_read_with_gradients_on(device):
    here, there = torch.nn.Linear(4, 4).weight, Layers().to(GPU).linear.weight
    assert torch.equal(here.to(GPU).cpu(), here) and here.to(torch.float64).requires_grad
    assert torch.equal(there.clone().cpu(), there.cpu())
    target = torch.zeros(4, 4, device=GPU)
    target.copy_(here)
    assert torch.equal(target.cpu(), here) and there[0, 0].item() == there.tolist()[0][0]
    assert not there.data.requires_grad and not there.detach().requires_grad


def test_weights_on_the_device_have_the_class_of_plain_tensors(device, tmp_path):
    from headroom.actions.mapping import check_mappable
    from headroom.cast.rules import quantised_reason

    net = Net().to(GPU)
    assert all(type(weight.data) in (torch.Tensor, torch.nn.Parameter) for weight in
               [*net.parameters(), *net.buffers()])
    assert quantised_reason(net) == ""
    check_mappable([net], tmp_path)
