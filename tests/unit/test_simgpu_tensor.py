"""Tensors of the simulated GPU: the charges are right, and the results those of the CPU."""

import copy
import gc
import io

import pytest

torch = pytest.importorskip("torch", reason="the simulated GPU needs torch")
import simgpu  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
GPU = "cuda"


@pytest.fixture
def device():
    """A simulated GPU of 256 MiB in this process, for one test."""
    made = simgpu.switch_on(256 * MIB)
    yield made
    simgpu.switch_off()


@pytest.fixture(params=["inference_mode", "no_grad"])
def mode(request):
    """Both ways ComfyUI runs code in: operations arrive whole, or already decomposed."""
    with getattr(torch, request.param)():
        yield request.param


def used(device) -> int:
    """Bytes in use, without the help of the garbage collector."""
    return device.figures().allocated_bytes


def floats(kib: int):
    return torch.zeros(kib * 256, device=GPU)


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


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[2:],
        lambda t: t.view(16, -1),
        lambda t: t.reshape(2, -1).t(),
        lambda t: t.split(100)[1],
        lambda t: t.detach(),
        lambda t: t.data,
        lambda t: t.expand(4, -1),
        lambda t: t.unsqueeze(0).permute(1, 0),
        lambda t: t.chunk(2)[1].narrow(0, 5, 9),
        lambda t: t.contiguous(),
        lambda t: t.to(GPU),
    ],
)
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


def test_out_receives_the_result_without_a_new_charge(device, mode):
    left, out = torch.ones(256, device=GPU), torch.empty(256, device=GPU)
    assert torch.add(left, left, out=out) is out
    assert out.tolist() == [2.0] * 256
    assert used(device) == 2 * KIB


def test_out_grows_when_it_is_too_small(device, mode):
    left, out = torch.ones(256, device=GPU), torch.empty(0, device=GPU)
    torch.add(left, left, out=out)
    assert out.shape == (256,) and out.tolist() == [2.0] * 256
    assert used(device) == 2 * KIB


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
    assert f"{tensor[1]:.2f}" == "1.00" and "cuda:0" in repr(tensor)


@pytest.mark.parametrize(
    "make",
    [
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
    ],
)
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


class Net(torch.nn.Module):
    """Parameters and buffers, of floating point and of integers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, value):
        return self.norm(self.first(value))


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


def test_a_module_loaded_under_inference_mode_can_be_unloaded_outside_it(device):
    with torch.inference_mode():
        net = Net().to(GPU)
    net.to("cpu")
    assert used(device) == 0
    assert {p.device.type for p in net.parameters()} == {"cpu"}


def test_a_module_made_under_inference_mode_can_be_moved_to_where_it_is_outside_it(device):
    with torch.inference_mode():
        net = torch.nn.Linear(16, 16, device=GPU)
    net.to(GPU)
    assert {p.device.type for p in net.parameters()} == {GPU}
    net.to("cpu")
    assert used(device) == 0


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


def test_a_tensor_survives_pickling(device):
    buffer = io.BytesIO()
    torch.save({"weight": torch.arange(4.0, device=GPU)}, buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=False)["weight"].tolist() == [0, 1, 2, 3]


def test_a_checkpoint_file_loads_straight_to_the_device(device):
    buffer = io.BytesIO()
    torch.save({"state": [torch.arange(4.0)]}, buffer)
    buffer.seek(0)
    (weight,) = torch.load(buffer, map_location=GPU)["state"]
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


def test_attention_pays_for_its_result_only(device, mode):
    query, key, value = (torch.randn(1, 2, 1024, 32, device=GPU) for _ in range(3))
    before = device.figures().allocated_bytes
    torch.cuda.reset_peak_memory_stats()
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
            torch.cuda.reset_peak_memory_stats()
            torch.einsum("bij,bkj->bik", value, value)
            peaks.append(device.figures().peak_allocated_bytes)
            del value
    assert peaks[0] == peaks[1] > 2 * 64 * 64 * 4 * 2 - 1


def test_a_full_device_raises_the_error_of_pytorch_and_recovers(device, mode):
    held = torch.empty(200 * MIB, dtype=torch.uint8, device=GPU)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 100.00 MiB"):
        torch.empty(100 * MIB, dtype=torch.uint8, device=GPU)
    del held
    torch.empty(100 * MIB, dtype=torch.uint8, device=GPU)
    assert device.figures().ooms == 1


def test_a_failed_operation_leaves_no_charge_behind(device, mode):
    tensor = torch.zeros(30 * MIB, dtype=torch.uint8, device=GPU)

    def work(value):
        doubled = [value.clone() for _ in range(20)]
        return torch.cat(doubled)

    with pytest.raises(torch.OutOfMemoryError):
        work(tensor)
    gc.collect()  # pytest keeps the error, whose frames refer to each other
    assert used(device) == 30 * MIB


def test_an_error_does_not_keep_the_operands_of_the_failed_operation(device, mode):
    device.fault = simgpu.Fault(above_bytes=10 * MIB - 1)
    gc.disable()
    try:
        kept = None
        try:
            torch.cat([torch.zeros(5 * MIB, dtype=torch.uint8, device=GPU)] * 2)
        except torch.OutOfMemoryError as error:
            kept = error
        assert kept is not None and device.figures().allocated_bytes == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("kind", "family", "text"),
    [
        ("oom", "OutOfMemoryError", "CUDA out of memory"),
        ("runtime", "RuntimeError", "CUDA out of memory"),
        ("async_pool", "OutOfMemoryError", "Allocation on device"),
        ("cublas", "RuntimeError", "CUBLAS_STATUS_ALLOC_FAILED"),
        ("cudnn", "RuntimeError", "CUDNN_STATUS_ALLOC_FAILED"),
        ("mps", "RuntimeError", "MPS backend out of memory"),
        ("accelerator", "AcceleratorError", "out of memory"),
        ("host", "MemoryError", "not enough memory"),
        ("illegal_access", "RuntimeError", "illegal memory access"),
    ],
)
def test_an_armed_fault_raises_its_own_kind_of_error(device, mode, kind, family, text):
    device.fault = simgpu.Fault(at=2, kind=kind)
    first = floats(1)
    with pytest.raises(Exception, match=text) as caught:
        first.clone()
    assert type(caught.value).__name__ == family
    assert (first + 1).sum().item() == 256
    assert device.fault.failed == 1


def test_a_fault_in_the_middle_of_a_module_leaves_only_the_weights(device, mode):
    net, value = Net().eval().to(GPU), torch.ones(2, 16, device=GPU)
    before = used(device)
    for number in range(1, 6):
        device.fault = simgpu.Fault(at=number)
        try:
            net(value)
        except torch.OutOfMemoryError:
            assert device.fault.failed == 1
        assert used(device) == before


def test_pytorch_reports_the_figures_of_the_ledger(device):
    tensor = torch.zeros(3 * MIB, dtype=torch.uint8, device=GPU)
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated() == 3 * MIB
    assert stats["reserved_bytes.large_pool.current"] == torch.cuda.memory_reserved() == 20 * MIB
    assert stats["active_bytes.all.peak"] == torch.cuda.max_memory_allocated() == 3 * MIB
    assert stats["num_ooms"] == 0 and stats["segment.large_pool.current"] == 1
    assert torch.cuda.mem_get_info() == (236 * MIB, 256 * MIB)
    assert "Allocated memory" in torch.cuda.memory_summary()
    (segment,) = torch.cuda.memory_snapshot()
    assert segment["total_size"] == 20 * MIB and len(segment["blocks"]) == 2
    del tensor
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_reserved() == 0


def test_a_memory_fraction_set_through_torch_is_kept(device):
    torch.cuda.set_per_process_memory_fraction(0.25)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(65 * MIB, dtype=torch.uint8, device=GPU)
    assert torch.cuda.get_per_process_memory_fraction() == 0.25


def test_storages_can_be_told_apart_and_counted(device):
    base = floats(4)
    view, other = base[10:], floats(1)
    storages = {t.untyped_storage().data_ptr() for t in (base, view, other)}
    assert len(storages) == 2 and view.untyped_storage().nbytes() == 4 * KIB
    assert view.data_ptr() == base.data_ptr() + 40


def test_two_runs_give_identical_bits(device, mode):
    def run():
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8)).to(GPU)
        return net(torch.randn(1, 3, 16, 16, device=GPU)).cpu()

    assert torch.equal(run(), run())
