"""The results on the simulated GPU are those of the CPU."""

import pytest

torch = pytest.importorskip("torch", reason="the simulated GPU needs torch")
from support.simulated import GPU  # noqa: E402


def test_items_are_read_and_written_as_on_the_cpu(device, mode):
    plain = torch.arange(24.0).reshape(4, 6)
    tensor, rows = plain.to(GPU), torch.tensor([2, 0], device=GPU)
    for index in (1, -1, slice(1, 3), (slice(None), 2), ..., None, [0, 2], (1, [3, 4])):
        assert torch.equal(tensor[index].cpu(), plain[index])
    assert torch.equal(tensor[rows].cpu(), plain[rows.cpu()])
    assert torch.equal(tensor[tensor > 5].cpu(), plain[plain > 5])
    for target, ones in ((plain, torch.ones(6)), (tensor, torch.ones(6, device=GPU))):
        target[1:3, ::2] = 0
        target[[2, 0]] = ones
        target[target > 20] = -1
        target[3] = torch.full((6,), 9.0)  # CUDA too copies from the CPU into a slice
    assert torch.equal(tensor.cpu(), plain)


def test_a_slice_may_end_at_a_number_that_lies_on_the_device(device, mode):
    value, end = torch.ones(4, 6, device=GPU), torch.tensor(2, device=GPU)
    assert value[:, :end].shape == (4, 2)
    value[:, end:] = 0
    assert value.sum().item() == 8


def test_tensors_of_two_devices_do_not_mix(device, mode):
    here, there = torch.ones(4, device=GPU), torch.ones(4)
    for operation in (
        lambda: here + there,
        lambda: there + here,
        lambda: torch.cat([here, there]),
        lambda: here.add_(there),
        lambda: torch.nn.functional.linear(here, torch.ones(4, 4)),
        lambda: torch.where(here > 0, here, there),
        lambda: here.__setitem__([0, 1], there[:2]),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            operation()
    assert (here + torch.tensor(2.0)).tolist() == [3.0] * 4  # a number in a tensor is allowed
    assert here[torch.tensor([0, 1])].tolist() == [1.0] * 2  # and so are indices


def test_values_come_back_to_the_host_only_by_a_copy(device):
    tensor = torch.arange(3.0, device=GPU)
    assert tensor.cpu().numpy().tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="Tensor.cpu"):
        tensor.numpy()
    assert tensor.tolist() == [0, 1, 2] and float(tensor[2]) == 2.0 and int(tensor[1]) == 1
    assert len(range(tensor.int()[2])) == 2
    assert (~(tensor > 1)).tolist() == [True, True, False]
    assert f"{tensor[1]:.2f}" == "1.00" and "cuda:0" in repr(tensor)


@pytest.mark.parametrize("make", [
    lambda **on: torch.tensor([1.0, 2.0], **on),
    lambda **on: torch.as_tensor([1, 2], **on),
    lambda **on: torch.asarray([1.5], **on),
    lambda **on: torch.arange(5, **on),
    lambda **on: torch.arange(1, 9, 2, **on),
    lambda **on: torch.linspace(0, 1, 5, **on),
    lambda **on: torch.logspace(0, 1, 5, **on),
    lambda **on: torch.full((2, 3), 4, **on),
    lambda **on: torch.eye(3, **on),
    lambda **on: torch.ones(2, 2, dtype=torch.bfloat16, **on),
    lambda **on: torch.zeros_like(torch.ones(3), **on),
    lambda **on: torch.scalar_tensor(3, **on),
    lambda **on: torch.tril_indices(3, 3, **on),
    lambda **on: torch.hann_window(8, **on),
])
def test_a_tensor_made_on_the_device_is_the_one_made_on_the_cpu(device, mode, make):
    there, here = make(device="cpu"), make(device=GPU)
    assert here.device.type == GPU and here.dtype == there.dtype
    assert torch.equal(here.cpu(), there)


def test_numbers_that_lie_on_the_device_can_be_gathered_in_a_list(device, mode):
    values = torch.tensor([1.0, 2.0], device=GPU, dtype=torch.float16)
    gathered = torch.tensor([[values[0] * 2, values[1]]], device=GPU)
    assert gathered.is_cuda and gathered.dtype == torch.float16
    assert gathered.tolist() == [[2.0, 2.0]]
    assert torch.tensor([values[0], 3]).tolist() == [1.0, 3.0]


def test_random_numbers_repeat_with_the_seed(device, mode):
    torch.manual_seed(5)
    first = torch.randn(8, device=GPU)
    torch.manual_seed(5)
    assert torch.equal(first.cpu(), torch.randn(8, device=GPU).cpu())
    draws = [
        torch.randn(8, device=GPU, generator=torch.Generator(device=GPU).manual_seed(1)).tolist()
        for _ in range(2)
    ]
    assert draws[0] == draws[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_products_are_the_float32_ones_rounded(device, mode, dtype):
    torch.manual_seed(0)
    left, right = torch.randn(8, 16).to(dtype), torch.randn(4, 16).to(dtype)
    here = torch.nn.functional.linear(left.to(GPU), right.to(GPU))
    assert here.dtype == dtype
    assert torch.equal(here.cpu(), (left.float() @ right.float().t()).to(dtype))
    image, kernel = torch.randn(1, 3, 8, 8).to(dtype), torch.randn(2, 3, 3, 3).to(dtype)
    convolved = torch.nn.functional.conv2d(image.to(GPU), kernel.to(GPU), padding=1)
    expected = torch.nn.functional.conv2d(image.float(), kernel.float(), padding=1).to(dtype)
    assert torch.equal(convolved.cpu(), expected)


def test_two_runs_give_identical_bits(device, mode):
    def run():
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8)).to(GPU)
        return net(torch.randn(1, 3, 16, 16, device=GPU)).cpu()

    assert torch.equal(run(), run())
