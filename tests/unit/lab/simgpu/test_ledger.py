"""The allocator model against worked examples of PyTorch's documented rules."""

import pytest
from support.ledgers import KIB, MIB, filled, stat

from simgpu import Ledger, LedgerFull


@pytest.mark.parametrize(
    ("nbytes", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 1, 10 * MIB, 10 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        # A rest of at most 1 MiB is not split off: the request occupies the whole segment.
        (11 * MIB, 12 * MIB, 12 * MIB),
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),
        (100 * MIB, 100 * MIB, 100 * MIB),
    ],
)
def test_a_first_request_takes_the_block_and_segment_that_pytorch_gives(
    nbytes, allocated, reserved
):
    ledger = Ledger(512 * MIB)
    ledger.malloc(nbytes)
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (allocated, reserved)
    assert stat(ledger, "requested_bytes") == nbytes


def test_nothing_is_charged_for_an_empty_tensor():
    ledger = Ledger(64 * MIB)
    assert ledger.malloc(0) is None
    assert ledger.reserved_bytes == 0 and stat(ledger, "allocation") == 0


def test_small_requests_share_a_segment_of_two_mib():
    ledger = Ledger(64 * MIB)
    filled(ledger, *[0.5] * 4)
    assert ledger.reserved_bytes == 2 * MIB
    filled(ledger, 0.5)
    assert ledger.reserved_bytes == 4 * MIB
    assert stat(ledger, "segment", "small_pool") == 2


def test_large_requests_share_a_segment_of_twenty_mib():
    ledger = Ledger(64 * MIB)
    filled(ledger, 9, 9)
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (18 * MIB, 20 * MIB)
    filled(ledger, 3)
    assert ledger.reserved_bytes == 40 * MIB


def test_a_rest_of_one_mib_stays_with_a_large_block():
    ledger = Ledger(64 * MIB)
    filled(ledger, 9, 10 - 1 / 2048)  # 9 MiB, then 512 bytes less than 10 MiB: 1 MiB + 512 rest
    assert ledger.allocated_bytes == 19 * MIB - 512
    ledger = Ledger(64 * MIB)
    filled(ledger, 9.5, 9.5)  # exactly 1 MiB would remain of the segment of 20
    assert ledger.allocated_bytes == 9.5 * MIB + 10.5 * MIB


def test_the_best_fitting_cached_block_is_used_first():
    ledger = Ledger(256 * MIB)
    blocks = filled(ledger, 40, 20, 30)
    wanted = blocks[2].address
    for block in blocks:
        ledger.free(block)
    assert ledger.malloc(25 * MIB).address == wanted
    assert ledger.reserved_bytes == 90 * MIB


def test_freed_neighbours_become_one_block_again():
    ledger = Ledger(64 * MIB)
    first, second, third = filled(ledger, 6, 6, 6)
    ledger.free(first)
    ledger.free(third)
    assert stat(ledger, "inactive_split") == 2
    assert stat(ledger, "inactive_split_bytes") == 14 * MIB
    ledger.free(second)
    assert stat(ledger, "inactive_split") == 0 and stat(ledger, "inactive_split_bytes") == 0
    filled(ledger, 18)
    assert ledger.reserved_bytes == 20 * MIB


def test_empty_cache_returns_only_segments_without_a_used_block():
    ledger = Ledger(128 * MIB)
    used, freed, whole = filled(ledger, 5, 5, 40)
    ledger.free(freed)
    ledger.free(whole)
    ledger.empty_cache()
    assert ledger.reserved_bytes == 20 * MIB
    ledger.free(used)
    ledger.empty_cache()
    assert ledger.reserved_bytes == 0 and stat(ledger, "segment") == 0
    assert ledger.segments() == []


def test_a_shortage_releases_the_cache_and_tries_once_more():
    ledger = Ledger(64 * MIB)
    ledger.free(ledger.malloc(40 * MIB))
    ledger.malloc(50 * MIB)
    assert ledger.reserved_bytes == 50 * MIB
    assert (ledger.stats.num_alloc_retries, ledger.stats.num_ooms) == (1, 0)


def test_a_request_that_cannot_be_served_changes_nothing_but_the_cache():
    ledger = Ledger(64 * MIB)
    filled(ledger, 40)
    ledger.free(ledger.malloc(12 * MIB))
    with pytest.raises(LedgerFull) as caught:
        ledger.malloc(26 * MIB + 1)
    assert caught.value.asked_bytes == 28 * MIB
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (40 * MIB, 40 * MIB)
    assert (ledger.stats.num_alloc_retries, ledger.stats.num_ooms) == (1, 1)


def test_fragments_that_would_be_enough_together_are_a_shortage():
    ledger = Ledger(40 * MIB)
    blocks = filled(ledger, *[5] * 8)
    for block in blocks[::2]:
        ledger.free(block)
    with pytest.raises(LedgerFull):
        ledger.malloc(6 * MIB)
    assert ledger.reserved_bytes - ledger.allocated_bytes == 20 * MIB


def test_a_smaller_capacity_only_stops_new_segments():
    ledger = Ledger(100 * MIB)
    filled(ledger, 40, 9)
    ledger.capacity_bytes = 50 * MIB
    assert ledger.mem_get_info() == (0, 50 * MIB)
    filled(ledger, 9)  # the rest of the segment of 20 is still there
    with pytest.raises(LedgerFull):
        filled(ledger, 9)


def test_memory_of_another_process_is_missing_from_the_driver_figure():
    ledger = Ledger(100 * MIB)
    ledger.other_process_bytes = 70 * MIB
    filled(ledger, 9)
    assert ledger.mem_get_info() == (10 * MIB, 100 * MIB)
    with pytest.raises(LedgerFull):
        filled(ledger, 12)


def test_a_memory_fraction_caps_what_is_reserved():
    ledger = Ledger(100 * MIB)
    ledger.set_memory_fraction(0.5)
    filled(ledger, 40)
    with pytest.raises(LedgerFull):
        filled(ledger, 12)
    assert ledger.mem_get_info() == (60 * MIB, 100 * MIB)
    with pytest.raises(ValueError, match="from 0 to 1"):
        ledger.set_memory_fraction(1.5)


def test_peaks_are_kept_until_they_are_reset():
    ledger = Ledger(100 * MIB)
    ledger.free(ledger.malloc(40 * MIB))
    ledger.empty_cache()
    assert ledger.stats.allocated_bytes.all.peak == 40 * MIB
    ledger.stats.reset_peaks()
    assert ledger.stats.allocated_bytes.all.peak == 0
    filled(ledger, 12)
    assert ledger.stats.reserved_bytes.all.peak == 12 * MIB


def test_accumulated_figures_count_both_ways_until_they_are_reset():
    ledger = Ledger(100 * MIB)
    ledger.free(ledger.malloc(KIB))
    allocation = ledger.stats.allocation.all
    assert (allocation.allocated, allocation.freed) == (1, 1)
    ledger.stats.reset_accumulated()
    assert (allocation.allocated, allocation.freed) == (0, 0)
