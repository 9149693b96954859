"""Long runs of the allocator model, and the sequences that a real GPU carries out too."""

import random

import pytest
from support.ledgers import MIB, stat

from simgpu import Ledger, LedgerFull
from simgpu.sequences import SEQUENCES, LedgerDevice, replay


def check_consistent(ledger: Ledger, live: list) -> None:
    segments = ledger.segments()
    blocks = [block for segment in segments for block in segment]
    assert {block for block in blocks if block.allocated} == set(live)
    assert sum(block.size for block in live) == ledger.allocated_bytes
    assert sum(block.size for block in blocks) == ledger.reserved_bytes <= ledger.capacity_bytes
    for segment in segments:
        for one, other in zip(segment, segment[1:], strict=False):
            assert one.address + one.size == other.address and other.previous is one
            assert one.allocated or other.allocated, "not merged"
    split = [block for block in blocks if not block.allocated and block.is_split()]
    assert stat(ledger, "inactive_split") == len(split)
    assert stat(ledger, "inactive_split_bytes") == sum(block.size for block in split)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_byte_is_lost_or_counted_twice_in_a_long_random_run(seed):
    source, live = random.Random(seed), []
    ledger = Ledger(128 * MIB)
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


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_shared_sequences_give_everything_back(name):
    ledger = Ledger(1024 * MIB)
    seen = replay(SEQUENCES[name], LedgerDevice(ledger))
    assert len(seen) == len(SEQUENCES[name])
    assert all(0 <= allocated <= reserved for allocated, reserved in seen)
    assert ledger.reserved_bytes == 0
