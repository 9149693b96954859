"""Injected faults, and threads that charge the device at once."""

import gc
import threading

import pytest
from support.simulated import KIB, MIB

from simgpu import Fault, Ledger, LedgerFull, SimDevice


@pytest.mark.parametrize(("settings", "sizes", "struck"), [
    ({"at": 3}, [KIB] * 9, [3]), ({"every": 3}, [KIB] * 9, [3, 6, 9]),
    ({"every": 2, "above_bytes": KIB}, [KIB, 2 * KIB, KIB, 2 * KIB, 3 * KIB, KIB + 1], [4, 6]),
    ({"above_bytes": KIB, "times": 2}, [2 * KIB] * 5, [1, 2]),
], ids=["the kth once", "every kth", "only above a size", "all, so many times"])
def test_a_fault_strikes_the_allocations_that_it_is_set_to(settings, sizes, struck):
    fault = Fault(**settings)
    assert [number for number, size in enumerate(sizes, 1) if fault.strikes(size)] == struck
    assert fault.failed == len(struck)


@pytest.mark.parametrize("settings", [{"kind": "fire"}, {"at": 1, "every": 2}, {"at": -1}])
def test_a_fault_with_impossible_settings_is_refused(settings):
    with pytest.raises(ValueError, match="expected"):
        Fault(**settings)


def test_an_injected_fault_releases_the_cache_and_is_counted_like_a_real_one():
    ledger = Ledger(64 * MIB)
    ledger.free(ledger.malloc(40 * MIB))
    with pytest.raises(LedgerFull):
        ledger.malloc(KIB, refuse=True)
    assert ledger.reserved_bytes == 0
    assert (ledger.stats.num_alloc_retries, ledger.stats.num_ooms) == (1, 1)


def test_a_charge_ends_with_its_tensor_even_while_the_ledger_is_locked():
    device = SimDevice(64 * MIB)
    charge = device.charge(KIB)
    with device.locked() as ledger:
        del charge  # as the garbage collector may do in the middle of an allocation
        assert ledger.allocated_bytes == KIB
    assert device.figures().allocated_bytes == 0


def test_garbage_is_not_collected_while_the_ledger_is_locked():
    device = SimDevice(64 * MIB)
    with device.locked():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_threads_charge_and_release_without_losing_a_byte():
    device = SimDevice(64 * MIB)

    def work() -> None:
        for number in range(300):
            charges = [device.charge(KIB * (1 + number % 5)) for _ in range(5)]
            del charges

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = device.figures()
    assert figures.allocated_bytes == 0 and figures.allocations == figures.frees == 4 * 300 * 5
    assert gc.isenabled()
