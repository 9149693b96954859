"""The simulated GPU's counts of bytes, as a caching allocator has them."""

import pytest

from simgpu import Ledger, LedgerFull

MIB = 1 << 20


def filled(*mib: float, capacity: int = 100) -> Ledger:
    ledger = Ledger(capacity * MIB)
    for size in mib:
        ledger.malloc(int(size * MIB))
    return ledger


@pytest.mark.parametrize(("nbytes", "taken"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB)])
def test_a_request_takes_its_bytes_rounded_up_as_pytorch_rounds(nbytes, taken):
    ledger = Ledger(64 * MIB)
    ledger.malloc(nbytes)
    assert ledger.allocated_bytes == ledger.reserved_bytes == taken
    assert ledger.stats.requested_bytes.current == nbytes
    ledger.free(nbytes)
    assert ledger.allocated_bytes == ledger.stats.requested_bytes.current == 0


def test_nothing_is_charged_for_an_empty_tensor():
    ledger = filled(0)
    assert ledger.reserved_bytes == ledger.stats.allocation.current == 0


def test_freed_memory_stays_cached_and_is_used_again():
    ledger = filled(40, 20)
    ledger.free(20 * MIB)
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (40 * MIB, 60 * MIB)
    ledger.malloc(25 * MIB)
    assert ledger.reserved_bytes == 65 * MIB
    ledger.free(25 * MIB)
    ledger.empty_cache()
    assert ledger.reserved_bytes == 40 * MIB


def test_a_shortage_releases_the_cache_and_tries_once_more():
    ledger = filled(20)
    ledger.free(20 * MIB)
    ledger.other_process_bytes = 30 * MIB
    ledger.malloc(50 * MIB)
    assert (ledger.stats.num_alloc_retries, ledger.stats.num_ooms) == (0, 0)
    ledger.free(50 * MIB)
    ledger.other_process_bytes = 60 * MIB
    assert ledger.mem_get_info() == (0, 100 * MIB)
    ledger.malloc(40 * MIB)  # of the cache
    ledger.free(40 * MIB)
    ledger.other_process_bytes = 70 * MIB
    with pytest.raises(LedgerFull):
        ledger.malloc(51 * MIB)
    assert (ledger.reserved_bytes, ledger.stats.num_alloc_retries, ledger.stats.num_ooms) == (
        0, 1, 1)


def test_a_request_that_cannot_be_served_changes_nothing_but_the_cache():
    ledger = filled(40, 12, capacity=64)
    ledger.free(12 * MIB)
    with pytest.raises(LedgerFull) as caught:
        ledger.malloc(26 * MIB - 1)
    assert caught.value.asked_bytes == 26 * MIB
    assert ledger.allocated_bytes == ledger.reserved_bytes == 40 * MIB
    assert (ledger.stats.num_alloc_retries, ledger.stats.num_ooms) == (1, 1)


def test_a_smaller_capacity_takes_nothing_away_and_gives_nothing_more():
    ledger = filled(60)
    ledger.free(60 * MIB)
    ledger.capacity_bytes = 50 * MIB
    assert ledger.mem_get_info() == (0, 50 * MIB)
    ledger.malloc(60 * MIB)
    with pytest.raises(LedgerFull):
        ledger.malloc(MIB)


def test_a_memory_fraction_caps_what_is_reserved():
    ledger = filled(40)
    ledger.set_memory_fraction(0.5)
    with pytest.raises(LedgerFull):
        ledger.malloc(12 * MIB)
    assert ledger.mem_get_info() == (60 * MIB, 100 * MIB)
    with pytest.raises(ValueError, match="from 0 to 1"):
        ledger.set_memory_fraction(1.5)


def test_peaks_and_accumulated_figures_are_kept_until_they_are_reset():
    ledger = filled(40)
    ledger.free(40 * MIB)
    ledger.empty_cache()
    stats = ledger.stats
    assert stats.allocated_bytes.peak == stats.reserved_bytes.peak == 40 * MIB
    assert (stats.allocation.allocated, stats.allocation.freed) == (1, 1)
    stats.reset_peaks()
    stats.reset_accumulated()
    assert stats.allocated_bytes.peak == stats.allocation.allocated == stats.allocation.freed == 0
    ledger.malloc(12 * MIB)
    assert stats.reserved_bytes.peak == 12 * MIB
