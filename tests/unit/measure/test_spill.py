"""Spilled memory, from samples as Windows gives them; a stand-in answers the calls of pdh.dll."""

import ctypes
import sys

from headroom.measure.spill import Spill, _Counter, counter_of_windows, shared_bytes

MIB = 1 << 20
OWN = "pid_1234_luid_0x00000000_0x0000D3A2_phys_0"
SAMPLES = {OWN: 300 * MIB, "pid_12345_luid_0x00000000_0x0000D3A2_phys_0": 900 * MIB,
           "pid_1234_luid_0x00000000_0x0000E000_phys_0": 40 * MIB}


def test_a_process_has_what_its_instances_have_on_all_adapters():
    assert shared_bytes(SAMPLES, 1234) == 340 * MIB
    assert shared_bytes(SAMPLES, 12) is None and shared_bytes({}, 1234) is None


def test_pinned_memory_and_the_level_at_rest_are_no_spill():
    shared, pinned, now = [100, 100, 1540, 1540], [0, 0, 200, 1400], [0.0]
    at = iter(range(4))
    turn = [0]

    def samples():
        turn[0] = next(at)
        return {OWN: shared[turn[0]] * MIB}

    spill = Spill(samples, lambda: pinned[turn[0]] * MIB, lambda: now[0], 1234)
    seen = []
    for now[0] in (0.0, 0.5, 1.0, 2.0, 3.0):
        seen.append(spill.bytes_now())
    assert seen == [0, None, 0, 1240 * MIB, 40 * MIB]  # asked once a second


def test_nothing_is_known_where_the_counter_cannot_be_read():
    assert Spill(lambda: None, clock=lambda: 1.0).bytes_now() is None
    if sys.platform != "win32":
        assert counter_of_windows()() is None


class Pdh:
    """pdh.dll as its documentation has it: a first question for the size, then the items."""

    def __init__(self, items):
        self.items = items
        self.kept = [ctypes.create_unicode_buffer(name) for name in items]

    def PdhOpenQueryW(self, source, data, query):
        return 0

    def PdhAddEnglishCounterW(self, query, path, data, counter):
        assert path == r"\GPU Process Memory(*)\Shared Usage"
        return 0

    def PdhCollectQueryData(self, query):
        return 0

    def PdhGetFormattedCounterArrayW(self, counter, form, size, count, buffer):
        assert form == 0x400
        size._obj.value, count._obj.value = 24 * len(self.items), len(self.items)
        if buffer is None:
            return -2147481646  # PDH_MORE_DATA, as ctypes gives it
        for at, (name, amount) in enumerate(zip(self.kept, self.items.values(), strict=True)):
            ctypes.c_void_p.from_buffer(buffer, 24 * at).value = ctypes.addressof(name)
            ctypes.c_int64.from_buffer(buffer, 24 * at + 16).value = amount
        return 0


def test_the_items_of_the_counter_are_read_as_windows_lays_them_out():
    assert _Counter(Pdh(SAMPLES)).read() == SAMPLES
