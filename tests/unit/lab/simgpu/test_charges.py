"""What a tensor of the simulated GPU is charged for, and when it is discharged."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="the simulated GPU needs torch")
from support.simulated import GPU, KIB, MIB, floats, used  # noqa: E402

import simgpu  # noqa: E402


def test_the_device_looks_like_a_cuda_gpu_while_it_is_on(device):
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.device(torch.cuda.current_device()) == torch.device("cuda", 0)
    assert torch.cuda.get_device_properties(0).total_memory == 256 * MIB
    assert torch.zeros(1, device=GPU).device == torch.device("cuda", 0)
    assert torch.zeros(1, device=GPU).is_cuda


def test_torch_is_as_before_when_the_device_is_off():
    before = (torch.tensor, torch.Tensor.to, torch.Generator, torch.version.cuda)
    available = torch.cuda.is_available()
    simgpu.switch_on(MIB)
    simgpu.switch_off()
    assert (torch.tensor, torch.Tensor.to, torch.Generator, torch.version.cuda) == before
    assert torch.cuda.is_available() == available
    assert type(torch.nn.Parameter(torch.zeros(1))) is torch.nn.Parameter


def test_a_tensor_is_charged_for_its_storage_and_discharged_when_it_dies(device):
    tensor = floats(3)
    assert used(device) == 3 * KIB
    del tensor
    assert used(device) == 0


def test_a_dead_tensor_is_discharged_without_the_garbage_collector(device):
    gc.disable()
    try:
        result = torch.nn.functional.silu(floats(8)) + 1
        assert device.figures().live_blocks == 1
        del result
        assert device.figures().live_blocks == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("view", [
    lambda t: t[2:], lambda t: t.view(16, -1), lambda t: t.reshape(2, -1).t(),
    lambda t: t.split(100)[1], lambda t: t.detach(), lambda t: t.data, lambda t: t.expand(4, -1),
    lambda t: t.unsqueeze(0).permute(1, 0), lambda t: t.chunk(2)[1].narrow(0, 5, 9),
    lambda t: t.contiguous(), lambda t: t.to(GPU),
])
def test_a_view_costs_nothing_and_keeps_its_base_alive(device, mode, view):
    base = floats(2)
    seen = view(base)
    assert used(device) == 2 * KIB
    seen.fill_(7)
    assert 7 in base.tolist()
    del base
    assert used(device) == 2 * KIB
    del seen
    assert used(device) == 0


def test_a_copy_is_charged(device, mode):
    base = floats(2)
    copies = [base.clone(), base[torch.arange(512, device=GPU)], base.to(torch.float16), +base.t()]
    assert used(device) >= 2 * KIB + 2 * KIB + 2 * KIB + KIB
    copies[0].fill_(1)
    assert base.sum().item() == 0


def test_an_operation_in_place_returns_the_same_object_and_costs_nothing(device, mode):
    tensor = floats(2)
    assert tensor.add_(1) is tensor and tensor.mul_(2).clamp_(0, 1) is tensor
    assert used(device) == 2 * KIB
    assert tensor.sum().item() == 512


@pytest.mark.parametrize("size", [256, 0])
def test_out_receives_the_result_without_a_new_charge_and_grows_where_it_is_too_small(
    device, mode, size
):
    left, out = torch.ones(256, device=GPU), torch.empty(size, device=GPU)
    assert torch.add(left, left, out=out) is out
    assert out.shape == (256,) and out.tolist() == [2.0] * 256
    assert used(device) == 2 * KIB


def test_attention_pays_for_its_result_only(device, mode):
    query, key, value = (torch.randn(1, 2, 1024, 32, device=GPU) for _ in range(3))
    before = device.figures().allocated_bytes
    device.ledger.stats.reset_highest()
    result = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    rise = device.figures().peak_allocated_bytes - before
    assert rise == result.numel() * 4  # the score matrix alone would be 8 MiB
    plain = torch.nn.functional.scaled_dot_product_attention(query.cpu(), key.cpu(), value.cpu())
    assert torch.allclose(result.cpu(), plain, atol=1e-5)


def test_a_composed_operation_pays_for_its_intermediate_results(device):
    peaks = []
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            value = torch.randn(2, 64, 64, device=GPU).transpose(1, 2)
            device.ledger.stats.reset_highest()
            torch.einsum("bij,bkj->bik", value, value)
            peaks.append(device.figures().peak_allocated_bytes)
            del value
    assert peaks[0] == peaks[1] > 2 * 64 * 64 * 4 * 2 - 1


def test_storages_can_be_told_apart_and_counted(device):
    base = floats(4)
    view, other = base[10:], floats(1)
    storages = {t.untyped_storage().data_ptr() for t in (base, view, other)}
    assert len(storages) == 2 and view.untyped_storage().nbytes() == 4 * KIB
    assert view.data_ptr() == base.data_ptr() + 40
