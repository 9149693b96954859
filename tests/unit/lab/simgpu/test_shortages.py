"""The simulated GPU when it is full or made to fail, and what PyTorch then reports."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="the simulated GPU needs torch")
from support.simulated import GPU, MIB, Net, floats, used  # noqa: E402

import simgpu  # noqa: E402


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


# The error class came with PyTorch 2.8.
ACCELERATOR = "AcceleratorError" if hasattr(torch, "AcceleratorError") else "RuntimeError"


@pytest.mark.parametrize(("kind", "family", "text"), [
    ("oom", "OutOfMemoryError", "CUDA out of memory"),
    ("runtime", "RuntimeError", "CUDA out of memory"),
    ("async_pool", "OutOfMemoryError", "Allocation on device"),
    ("cublas", "RuntimeError", "CUBLAS_STATUS_ALLOC_FAILED"),
    ("cudnn", "RuntimeError", "CUDNN_STATUS_ALLOC_FAILED"),
    ("mps", "RuntimeError", "MPS backend out of memory"),
    ("accelerator", ACCELERATOR, "out of memory"),
    ("host", "MemoryError", "not enough memory"),
    ("illegal_access", "RuntimeError", "illegal memory access"),
])
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


def test_pytorch_reports_the_figures_of_the_ledger_and_keeps_the_fraction_that_is_set(device):
    tensor = torch.zeros(3 * MIB, dtype=torch.uint8, device=GPU)
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated() == 3 * MIB
    assert stats["reserved_bytes.all.current"] == torch.cuda.memory_reserved() == 3 * MIB
    assert stats["active_bytes.all.peak"] == torch.cuda.max_memory_allocated() == 3 * MIB
    assert stats["num_ooms"] == 0
    assert torch.cuda.mem_get_info() == (253 * MIB, 256 * MIB)
    assert "Allocated memory" in torch.cuda.memory_summary()
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert torch.cuda.get_per_process_memory_fraction() == 0.25
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(65 * MIB, dtype=torch.uint8, device=GPU)
    torch.cuda.set_per_process_memory_fraction(1.0)
    del tensor
    (segment,) = torch.cuda.memory_snapshot()
    assert segment["blocks"] == [{"size": 3 * MIB, "state": "inactive"}]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_reserved() == 0
