"""Shorthands for the tests of the allocator model."""

from simgpu import Ledger

KIB, MIB = 1 << 10, 1 << 20


def filled(ledger: Ledger, *mib: float) -> list:
    return [ledger.malloc(int(size * MIB)) for size in mib]


def stat(ledger: Ledger, name: str, pool: str = "all") -> int:
    return getattr(getattr(ledger.stats, name), pool).current
