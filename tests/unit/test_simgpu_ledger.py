"""The allocator model against worked examples of PyTorch's documented rules."""

import gc
import random
import threading

import pytest

from simgpu import Fault, Ledger, LedgerFull, SimDevice
from simgpu.sequences import SEQUENCES, LedgerDevice, replay
from simgpu.settings import expandable_setting

KIB, MIB = 1 << 10, 1 << 20


def filled(ledger: Ledger, *mib: float) -> list:
    return [ledger.malloc(int(size * MIB)) for size in mib]


def stat(ledger: Ledger, name: str, pool: str = "all") -> int:
    return getattr(getattr(ledger.stats, name), pool).current


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


def test_expandable_segments_serve_what_fragments_cannot():
    fixed, growing = Ledger(60 * MIB), Ledger(60 * MIB, expandable_segments=True)
    for ledger in (fixed, growing):
        blocks = filled(ledger, 12, 14, 12)
        for block in blocks[::2]:
            ledger.free(block)
    # 14 MiB in use of 60. Segments of 12 are of no use to 36; mapped memory in front of the
    # unmapped rest of the address space is.
    fixed.malloc(36 * MIB)
    growing.malloc(30 * MIB)
    assert fixed.stats.num_alloc_retries == 1
    assert growing.stats.num_alloc_retries == 0


def test_expandable_segments_grow_in_units_of_twenty_mib():
    ledger = Ledger(200 * MIB, expandable_segments=True)
    ledger.malloc(11 * MIB)
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (11 * MIB, 20 * MIB)
    ledger.malloc(30 * MIB)
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (41 * MIB, 60 * MIB)
    ledger.malloc(KIB)
    assert ledger.reserved_bytes == 62 * MIB


def test_expandable_segments_give_back_whole_units_around_a_used_block():
    ledger = Ledger(200 * MIB, expandable_segments=True)
    blocks = filled(ledger, 50, 1.5, 60)
    ledger.free(blocks[0])
    ledger.free(blocks[2])
    ledger.empty_cache()
    assert ledger.reserved_bytes == 20 * MIB  # the unit with the used block
    ledger.free(blocks[1])
    ledger.empty_cache()
    assert ledger.reserved_bytes == 0 and ledger.segments() == []


def test_expandable_segments_can_be_switched_off_at_run_time():
    ledger = Ledger(200 * MIB, expandable_segments=True)
    ledger.free(ledger.malloc(15 * MIB))
    ledger.expandable_segments = False
    block = ledger.malloc(15 * MIB)
    assert block.expandable is None and ledger.reserved_bytes == 36 * MIB


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


def check_consistent(ledger: Ledger, live: list) -> None:
    segments = ledger.segments()
    blocks = [block for segment in segments for block in segment]
    mapped = [block for block in blocks if block.mapped]
    assert {block for block in blocks if block.allocated} == set(live)
    assert sum(block.size for block in live) == ledger.allocated_bytes
    assert sum(block.size for block in mapped) == ledger.reserved_bytes <= ledger.capacity_bytes
    for segment in segments:
        for one, other in zip(segment, segment[1:], strict=False):
            assert one.address + one.size == other.address and other.previous is one
            assert one.allocated or other.allocated or one.mapped != other.mapped, "not merged"
    split = [b for b in mapped if not b.allocated and b.is_split() and b.expandable is None]
    assert stat(ledger, "inactive_split") == len(split)
    assert stat(ledger, "inactive_split_bytes") == sum(block.size for block in split)


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_byte_is_lost_or_counted_twice_in_a_long_random_run(seed, expandable):
    source, live = random.Random(seed), []
    ledger = Ledger(128 * MIB, expandable)
    for step in range(3000):
        if live and source.random() < 0.5:
            ledger.free(live.pop(source.randrange(len(live))))
        else:
            try:
                live.append(ledger.malloc(int(2 ** source.uniform(1, 25.5))))
            except LedgerFull:
                ledger.free(live.pop())
        if step % 50 == 0:
            check_consistent(ledger, live)
    assert ledger.stats.num_ooms > 0, "the run was meant to reach the limit"
    for block in live:
        ledger.free(block)
    ledger.empty_cache()
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (0, 0)


def test_best_fit_in_expandable_mode_spares_the_block_that_can_grow():
    ledger = Ledger(200 * MIB, expandable_segments=True)
    blocks = filled(ledger, 6, 4, 6, 3)  # 19 of 20 MiB, so 1 MiB is free at the growing end
    wanted = blocks[0].address
    ledger.free(blocks[0])
    ledger.free(blocks[3])
    assert ledger.malloc(4 * MIB).address == wanted


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_shared_sequences_give_everything_back(name):
    ledger = Ledger(1024 * MIB)
    seen = replay(SEQUENCES[name], LedgerDevice(ledger))
    assert len(seen) == len(SEQUENCES[name])
    assert all(0 <= allocated <= reserved for allocated, reserved in seen)
    assert ledger.reserved_bytes == 0


def strikes(fault: Fault, *sizes: int) -> list[int]:
    return [number for number, size in enumerate(sizes, 1) if fault.strikes(size)]


def test_a_fault_strikes_the_kth_allocation_once():
    assert strikes(Fault(at=3), *[KIB] * 9) == [3]


def test_a_fault_strikes_every_kth_allocation():
    assert strikes(Fault(every=3), *[KIB] * 9) == [3, 6, 9]


def test_a_fault_counts_only_allocations_above_its_size():
    fault = Fault(every=2, above_bytes=KIB)
    assert strikes(fault, KIB, 2 * KIB, KIB, 2 * KIB, 3 * KIB, KIB + 1) == [4, 6]
    assert (fault.seen, fault.failed) == (4, 2)


def test_a_fault_without_a_number_strikes_all_and_stops_after_its_times():
    assert strikes(Fault(above_bytes=KIB, times=2), *[2 * KIB] * 5) == [1, 2]


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


def test_a_charge_is_given_back_when_it_dies_even_while_the_ledger_is_busy():
    device = SimDevice(64 * MIB)
    charge = device.charge(KIB)
    with device.locked() as ledger:
        del charge  # as the garbage collector may do in the middle of an allocation
        assert ledger.allocated_bytes == KIB
    assert device.figures().allocated_bytes == 0


def test_the_collector_rests_while_the_ledger_is_held_and_runs_again_afterwards():
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


@pytest.mark.parametrize(
    ("settings", "meaning"),
    [
        ("expandable_segments:True", True),
        ("garbage_collection_threshold:0.8,expandable_segments: false", False),
        ("max_split_size_mb:512", None),
        ("", None),
    ],
)
def test_the_setting_of_pytorch_for_expandable_segments_is_understood(settings, meaning):
    assert expandable_setting(settings) is meaning
