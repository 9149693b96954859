"""PyTorch computes on the fake driver: the memory that it takes, and the results."""

import pytest
from support.cuda_scripts import NEEDS_FAKE_CUDA

pytestmark = NEEDS_FAKE_CUDA

MIB = 1 << 20


def test_a_context_and_a_workspace_cost_what_was_set(run):
    found = run("""
held = take(2)  # PyTorch asks the driver for 20 MiB
before = opened().device()
with torch.no_grad():
    torch.nn.Conv2d(4, 4, 3).cuda()(torch.zeros(1, 4, 8, 8, device="cuda"))
show(context=before.context_used_bytes, used=before.used_bytes,
     peak=torch.cuda.max_memory_allocated())
""", capacity_mib=1024, context_mib=300, cudnn_workspace_mib=64, allocator="native")
    assert found["context"] == 300 * MIB
    assert found["used"] == 320 * MIB
    assert 67 * MIB > found["peak"] >= 66 * MIB


def test_a_convolution_asks_for_layout_copies_unless_its_tensors_are_channels_last(run):
    found = run("""
layer = torch.nn.Conv2d(16, 16, 3, padding=1).cuda()
def peak(picture):
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()
    with torch.no_grad():
        layer(picture)
    return torch.cuda.max_memory_allocated() - start
picture = torch.zeros(1, 16, 512, 512, device="cuda")  # 16 MiB, and as much comes out
plain = peak(picture)
layer, picture = (one.to(memory_format=torch.channels_last) for one in (layer, picture))
show(plain=plain, last=peak(picture))
""", capacity_mib=1024, cudnn_layout_copies=1, allocator="native")
    assert found == {"plain": (16 + 32) * MIB, "last": 16 * MIB}


@pytest.mark.parametrize(("dtype", "copies"), [("float32", 4), ("float16", 8)])
def test_a_convolution_asks_for_no_more_than_tiles_of_16_bytes_a_number(run, dtype, copies):
    found = run(f"""
layer = torch.nn.Conv2d(16, 16, 3, padding=1).to("cuda", torch.{dtype})
picture = torch.zeros(1, 16, 512, 512, device="cuda", dtype=torch.{dtype})
start = torch.cuda.memory_allocated()
with torch.no_grad():
    layer(picture)
show(copies=(torch.cuda.max_memory_allocated() - start - picture.nbytes) / picture.nbytes / 2)
""", capacity_mib=1024, cudnn_layout_copies=8, allocator="native")
    assert found == {"copies": copies}


def test_a_convolution_without_room_for_layout_copies_does_without(run):
    found = run("""
layer, picture = torch.nn.Conv2d(16, 16, 3, padding=1).cuda(), torch.zeros(1, 16, 512, 512)
with torch.no_grad():
    made = layer(picture.cuda())
show(shape=list(made.shape), peak=torch.cuda.max_memory_allocated() // MIB)
""", capacity_mib=60, cudnn_layout_copies=1, allocator="native")
    assert found == {"shape": [1, 16, 512, 512], "peak": 32}


def test_cudnns_attention_takes_a_mask_in_half_precision_and_no_matrix_of_scores(run):
    """ComfyUI prefers it since 0.33; if it fails, PyTorch tries no other attention."""
    found = run("""
from torch.nn.attention import SDPBackend, sdpa_kernel
attend = torch.nn.functional.scaled_dot_product_attention
q, k, v = (torch.zeros(1, 16, 1024, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))
mask = torch.zeros(1, 16, 1024, 1024, dtype=torch.bfloat16, device="cuda")
def peak(backend):
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()
    with torch.no_grad(), sdpa_kernel(backend):
        shape = list(attend(q, k, v, attn_mask=mask).shape)
    return shape, torch.cuda.max_memory_allocated() - start
show(cudnn=peak(SDPBackend.CUDNN_ATTENTION), math=peak(SDPBackend.MATH)[1])
""", capacity_mib=1024, capability="8.9", cudnn_layout_copies=1, allocator="native")
    shape, peak = found["cudnn"]
    assert shape == [1, 16, 1024, 64]
    assert 2 * MIB <= peak < 3 * MIB  # the output
    assert found["math"] > 32 * MIB  # the scores


def test_the_capability_is_the_one_set(run):
    found = run("show(found=torch.cuda.get_device_capability())", capability="8.9")
    assert found == {"found": [8, 9]}


def test_data_come_back_as_they_went_and_a_number_that_no_kernel_wrote_is_zero(run):
    found = run("""
there = torch.arange(100000, dtype=torch.int32)
device = there.cuda()
back = torch.equal(device.cpu(), there)
first, book = device[7].item(), opened().device()
computed = (device * 3)[7].item()
show(back=back, first=first, computed=computed, copied=[book.htod_bytes, book.dtoh_bytes],
     launched=opened().device().launches - book.launches)
""")
    assert found["back"] and found["first"] == 7 and found["computed"] == 0
    assert found["copied"][0] >= 400000 and found["copied"][1] >= 400000
    assert found["launched"] == 1


def test_a_system_of_equations_is_solved_without_memory_for_it(run):
    found = run("""
before = torch.cuda.max_memory_allocated()
matrix, right = torch.eye(3).cuda(), torch.ones(3, 1).cuda()
shapes = [list(torch.linalg.solve(matrix, right).shape) for _ in range(5)]
show(shapes=shapes, mib=torch.cuda.max_memory_allocated() // MIB)
""", capacity_mib=512, allocator="native")
    assert found["shapes"] == [[3, 1]] * 5
    assert found["mib"] < 16  # the workspaces of cuBLAS


def test_where_large_copies_are_left_out_an_encoder_on_the_cpu_computes_nothing_large(run):
    """Casts and linear layers from 1 MiB of weights on; the shapes and types stay those of real."""
    found = run("""
large, small = torch.nn.Linear(1024, 2048, bias=False), torch.nn.Linear(4, 4, bias=False)
with torch.no_grad():
    large.weight.fill_(1), small.weight.fill_(1)
    half = large.weight.to(device=torch.device("cpu"), dtype=torch.float16)
    made, kept = large(torch.ones(2, 3, 1024)), small(torch.ones(1, 4))
show(half=str(half.dtype), cast=half.sum().item(), shape=list(made.shape),
     sum=made.sum().item(), kept=kept[0].tolist(),
     same=large.weight.to(dtype=torch.float32) is large.weight,
     model=[[str(layer.to(torch.float16).weight.dtype), layer.weight.sum().item()]
            for layer in (large, small)])
""", capacity_mib=64, copy_at_most_kib=64)
    assert found == {"half": "torch.float16", "cast": 0.0, "shape": [2, 3, 2048], "sum": 0.0,
                     "kept": [4.0, 4.0, 4.0, 4.0], "same": True,
                     "model": [["torch.float16", 0.0], ["torch.float16", 16.0]]}


def test_where_large_copies_are_left_out_a_large_layer_is_not_filled_at_random(run):
    found = run("""
large, small = torch.nn.Linear(1024, 2048), torch.nn.Linear(4, 4)
show(large=large.weight.abs().sum().item(), small=small.weight.abs().sum().item() > 0)
""", capacity_mib=64, copy_at_most_kib=64)
    assert found == {"large": 0.0, "small": True}


def test_kernels_of_comfy_kitchen_take_what_they_take_on_a_card_and_compute_nothing(run):
    """8 bits of each input value, a scale a row, and the result: no numbers of 32 bits."""
    pytest.importorskip("comfy_kitchen.backends.cuda")
    found = run("""
import comfy_kitchen
rows, depth, width = 4096, 2048, 1024
value = torch.zeros(rows, depth, dtype=torch.bfloat16, device="cuda")
weight = torch.zeros(width, depth, dtype=torch.int8, device="cuda")
scale = torch.ones(1, device="cuda")
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
made = comfy_kitchen.int8_linear(value, weight, scale, out_dtype=torch.bfloat16)
show(shape=list(made.shape), dtype=str(made.dtype),
     kib=(torch.cuda.max_memory_allocated() - before) >> 10)
""", capacity_mib=512, allocator="native")
    assert found["shape"] == [4096, 1024] and found["dtype"] == "torch.bfloat16"
    rounding_kib = 8
    assert 0 <= found["kib"] - (8192 + 16 + 8192) <= rounding_kib
