"""Expandable segments in the allocator model."""

import pytest
from support.ledgers import KIB, MIB, filled

from simgpu import Ledger
from simgpu.settings import expandable_setting


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


def test_best_fit_in_expandable_mode_spares_the_block_that_can_grow():
    ledger = Ledger(200 * MIB, expandable_segments=True)
    blocks = filled(ledger, 6, 4, 6, 3)  # 19 of 20 MiB, so 1 MiB is free at the growing end
    wanted = blocks[0].address
    ledger.free(blocks[0])
    ledger.free(blocks[3])
    assert ledger.malloc(4 * MIB).address == wanted


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
