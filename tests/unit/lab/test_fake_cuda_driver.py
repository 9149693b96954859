"""PyTorch's own allocators on the fake driver, and the driver's counts."""

import pytest
from support.cuda_scripts import NEEDS_FAKE_CUDA

pytestmark = NEEDS_FAKE_CUDA

MIB = 1 << 20


@pytest.mark.parametrize("allocator", ["native", "expandable", "async"])
def test_the_bytes_that_pytorch_reserves_are_those_that_the_driver_gave(run, allocator):
    found = run("""
held = [take(n) for n in (0.3, 3, 17, 100)]
del held[2]
full = opened().device().words | {"reserved": torch.cuda.memory_reserved()}
driver = torch.cuda.mem_get_info()
held.clear()
torch.cuda.empty_cache()
show(full=full, driver=driver, empty=opened().device().words)
""", capacity_mib=512, allocator=allocator)
    full = found["full"]
    kinds = {"native": "malloc_bytes", "expandable": "handle_bytes", "async": "pool_reserved_bytes"}
    assert full["used_bytes"] == full[kinds[allocator]] == full["reserved"] > 103 * MIB
    assert found["driver"] == [512 * MIB - full["used_bytes"], 512 * MIB]
    assert found["empty"]["used_bytes"] == 0
    assert found["empty"]["peak_used_bytes"] == full["used_bytes"]


def test_an_allocation_fails_where_another_process_holds_the_memory(run):
    found = run("""
book = opened()
before = fails(200)
torch.cuda.empty_cache()
book.set(other_process_bytes=400 * MIB)
after, words = fails(150), book.device().words
book.set(other_process_bytes=0)
show(before=before, after=after, again=fails(150), refused=words["refused"])
""", capacity_mib=512, other_mib=100, allocator="native")
    assert found == {"before": False, "after": True, "again": False, "refused": 2}


def test_the_allocation_that_is_asked_to_fail_fails_and_no_other(run):
    found = run("""
book = opened()
book.fail(2, times=2, above_mib=20)  # the second of at least 20 MiB, and PyTorch's try after it
tried = [fails(n) for n in (10, 30, 10, 40, 40)]
show(tried=tried, failed=book.device().failed_on_purpose)
""", capacity_mib=512, allocator="native")
    assert found == {"tried": [False, False, False, True, False], "failed": 2}


def test_the_setting_lets_an_allocation_fail_from_the_start(run):
    found = run("show(tried=[fails(30), fails(30)])", fail_in=1, fail_times=2, allocator="native")
    assert found == {"tried": [True, False]}


def test_two_devices_keep_their_memory_apart(run):
    found = run("""
first, second = take(30, 0), take(50, 1)
book = opened()
show(used=[book.device(n).used_bytes for n in (0, 1)], failed=[fails(300, 0), fails(300, 1)],
     total=[torch.cuda.mem_get_info(n)[1] for n in (0, 1)])
""", capacity_mib="512,256", devices=2, allocator="native")
    assert found["used"] == [30 * MIB, 50 * MIB]
    assert found["failed"] == [False, True]
    assert found["total"] == [512 * MIB, 256 * MIB]


def test_pinned_memory_is_counted(run):
    found = run("""
before = opened().pinned_bytes
held = torch.empty(8 * MIB, dtype=torch.uint8).pin_memory()
show(pinned=opened().pinned_bytes - before, known=held.is_pinned(),
     other=torch.empty(8).is_pinned())
""")
    assert found == {"pinned": 8 * MIB, "known": True, "other": False}


def test_the_pool_maps_free_pages_anew_before_it_takes_more(run):
    found = run("""
held = [take(18) for _ in range(8)]  # of a slab of 32 MiB, which leaves 14
before = opened().device().used_bytes
del held[::2]
large = take(64)
after = opened().device().used_bytes
del held, large
torch.cuda.empty_cache()
show(before=before, after=after, left=opened().device().used_bytes)
""", capacity_mib=1024, allocator="async")
    assert found == {"before": 160 * MIB, "after": 160 * MIB, "left": 0}


def test_data_in_the_pool_stay_when_pages_beside_them_are_mapped_anew(run):
    found = run("""
held = [torch.full((18 * MIB,), n, dtype=torch.uint8, device="cpu").cuda() for n in range(8)]
del held[1::2]
large = take(100)
show(kept=[int(one.cpu().min()) == int(one.cpu().max()) == 2 * n for n, one in enumerate(held)])
""", capacity_mib=300, allocator="async")
    assert found == {"kept": [True] * 4}


# It hooks cuMemAlloc and cuMemAllocAsync; expandable segments come from cuMemCreate.
@pytest.mark.parametrize("allocator", ["native", "async"])
def test_pages_of_comfy_aimdo_yield_to_pytorchs_tensors(run, allocator):
    pytest.importorskip("comfy_aimdo")
    found = run("""
import comfy_aimdo.control
comfy_aimdo.control.init()
take(1)
comfy_aimdo.control.init_devices([0])
from comfy_aimdo.model_vbar import ModelVBAR
model = ModelVBAR(12 * 32 * MIB, 0)
model.prioritize()
for page in [model.alloc(32 * MIB) for _ in range(6)]:
    model.fault(*page[1:])
    model.unpin(*page[1:])
before = model.loaded_size()
held = [take(32) for _ in range(13)]
show(before=before, after=model.loaded_size(), refused=opened().device().refused)
""", capacity_mib=512, allocator=allocator)
    assert found["before"] == 192 * MIB and found["after"] <= 64 * MIB and not found["refused"]
