"""When a step of sampling begins with an empty cache."""

from dataclasses import replace

from headroom.guard.footprint import is_cramped
from headroom.measure.snapshot import DeviceMemory

MIB = 1 << 20


def device(free, reserved, allocated, pages=0):
    return DeviceMemory("cuda:0", "GPU", 678 * MIB, free * MIB, allocated * MIB, reserved * MIB,
                        pages * MIB)


def test_a_step_begins_with_an_empty_cache_where_what_others_left_could_be_in_its_way():
    assert is_cramped(device(free=100, reserved=400, allocated=10, pages=150), 600 * MIB)


def test_a_cache_that_nothing_stands_in_line_for_is_left_as_it_is():
    assert not is_cramped(device(free=500, reserved=100, allocated=10, pages=150), 600 * MIB)
    assert not is_cramped(device(free=100, reserved=10, allocated=10), 600 * MIB)
    unknown = replace(device(1, 400, 1), driver_free_bytes=None)
    assert not is_cramped(unknown, 600 * MIB)
