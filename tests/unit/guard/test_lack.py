"""How many bytes a failed call lacked, and on which device."""

import pytest
import torch

from headroom.guard.attempt import Failure
from headroom.guard.lack import full_device, lack_of
from headroom.measure.snapshot import DeviceMemory, Snapshot

MIB = 1 << 20
GPU = torch.device("cuda:0")


def memory(free, allocated, reserved, pages=None, name="cuda:0", total=1000):
    device = DeviceMemory(name, "a card", total * MIB, free * MIB, allocated * MIB,
                          reserved * MIB, None if pages is None else pages * MIB)
    return Snapshot((device,), 0, 0)


def failed(asked, at_failure, held, text="CUDA out of memory. Tried to allocate {} MiB."):
    return Failure.of(torch.OutOfMemoryError(text.format(f"{asked}.00")), at_failure, held)


def test_a_call_needs_the_bytes_that_it_held_and_those_that_it_asked_for():
    at_failure = memory(free=50, allocated=800, reserved=900)
    held = memory(free=50, allocated=780, reserved=900)  # 20 MiB were garbage
    clean = memory(free=600, allocated=400, reserved=400)
    found = lack_of(failed(300, at_failure, held), [GPU], clean)
    assert found.missing_bytes == (300 - 70) * MIB
    assert found.room_bytes == 600 * MIB
    assert found.need_bytes == (530 + 300) * MIB
    assert found.garbage_bytes == 20 * MIB  # of the 550 that came back, not the call's own
    assert found.share_of(8) == int(8 * 600 / 830)


def test_a_call_is_certain_when_its_very_tensors_leave_too_little_for_what_it_asked_for():
    held = memory(free=40, allocated=800, reserved=900)
    clean = memory(free=600, allocated=400, reserved=400)
    for asked, is_certain in ((200, False), (201, True)):
        found = lack_of(failed(asked, held, held), [GPU], clean)
        assert found.missing_bytes > 0 and found.is_certain == is_certain
    assert not lack_of(failed(300, held, held, "out of memory"), [GPU], clean).is_certain


def test_pages_of_dynamic_vram_can_go_between_two_calls_but_not_in_one():
    held = memory(free=0, allocated=500, reserved=500, pages=400)
    clean = memory(free=500, allocated=100, reserved=100, pages=300)
    found = lack_of(failed(64, held, held), [GPU], clean)
    assert found.missing_bytes == 64 * MIB
    assert found.room_bytes == 800 * MIB


def test_pieces_between_the_tensors_of_the_call_are_no_room_for_it():
    """These pieces stay: 100 MiB are free in pieces smaller than the 80 that it asked for."""
    held = memory(free=40, allocated=800, reserved=860)
    clean = memory(free=500, allocated=500, reserved=500)
    assert lack_of(failed(80, held, held), [GPU], clean).missing_bytes == 40 * MIB


def test_garbage_that_was_in_the_way_is_not_missing():
    at_failure = memory(free=40, allocated=800, reserved=860)
    held = memory(free=40, allocated=740, reserved=860)
    clean = memory(free=500, allocated=500, reserved=500)
    found = lack_of(failed(80, at_failure, held), [GPU], clean)
    assert found.missing_bytes == -20 * MIB  # 40 free and 60 of garbage


def test_an_error_without_an_amount_leaves_open_what_is_missing():
    held = memory(free=40, allocated=800, reserved=900)
    error = Failure.of(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), held, held)
    found = lack_of(error, [GPU], held)
    assert (found.missing_bytes, found.need_bytes) == (None, None)
    assert found.device == GPU


def test_ram_that_ran_out_is_on_no_device():
    held = memory(free=40, allocated=800, reserved=900)
    found = lack_of(Failure.of(MemoryError(), held, held), [GPU], held)
    assert (found.where, found.device, found.missing_bytes) == ("RAM", None, None)


def two(first, second):
    return Snapshot((first.devices[0], second.devices[0]), 0, 0)


@pytest.mark.parametrize(("text", "used", "name"), [
    ("CUDA out of memory. Tried to allocate 64.00 MiB. GPU 1 has a total capacity", ["cuda:0"],
     "cuda:1"),
    ("Allocation on device 0 would exceed allowed memory. (out of memory)", ["cuda:1"], "cuda:0"),
    ("VRAM grow failed: 134217728 bytes", ["cuda:1"], "cuda:1"),
    ("VRAM grow failed: 134217728 bytes", ["cuda:0", "cuda:1"], "cuda:1"),
    ("VRAM grow failed: 134217728 bytes", [], "cuda:0"),
    ("VRAM grow failed: 134217728 bytes", ["cuda"], "cuda:0"),
])
def test_the_full_device_is_the_one_that_is_named_else_the_fullest_in_use(text, used, name):
    held = two(memory(500, 100, 100), memory(10, 900, 900, name="cuda:1"))
    failure = Failure.of(RuntimeError(text), held, held)
    assert full_device(failure, [torch.device(device) for device in used]).device == name
