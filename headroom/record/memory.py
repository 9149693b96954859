"""Memory at one moment, and what two moments show about the time between them.

torch has a counter of the most it has reserved since the counter was reset. The recorder reads and
resets it at the boundaries of nodes, so each reading belongs to one node. It is exact, however
short the peak, with each of torch's allocators. Between two boundaries the counter is only read. If
a node resets it, the recorder sees the lower value, and the node's peak is then "at least".

Outside of the reserve are contexts, other processes and the pages of dynamic VRAM. No counter has
their peak. They are known at the two moments; between these, `at_least` counts the lower of the two
values and `at_most` the higher one.
"""

from typing import NamedTuple

from ..host.types import Held
from ..measure.strain import Strain


class Use(NamedTuple):
    """One device at one moment, in bytes; None if it is not known.

    `used_bytes`: what all processes use; if no driver tells (then `total_bytes` is None), what this
    process uses. `reserved_bytes`: what torch has reserved; `allocated_bytes`: what tensors use of
    it; `peak_bytes`: the most reserved since the counter was reset. `begins_again`: the counter was
    reset at this moment, after it was read.
    """

    used_bytes: int | None = None
    reserved_bytes: int = 0
    peak_bytes: int | None = None
    total_bytes: int | None = None
    allocated_bytes: int | None = None
    begins_again: bool = False

    @property
    def other_bytes(self) -> int:
        """What others use, and this process outside of torch's reserve (contexts, dynamic VRAM)."""
        return max((self.used_bytes or 0) - self.reserved_bytes, 0)

    @property
    def counter_bytes(self) -> int | None:
        """The value of torch's counter after this moment."""
        return self.reserved_bytes if self.begins_again else self.peak_bytes


class Reading(NamedTuple):
    """Memory at one moment (`at`: seconds of a monotonic clock), for each device of the run.

    `models`: those that ComfyUI held there; looked up only where nodes begin and end. `strain` is
    not read at every moment.
    """

    at: float
    rss_bytes: int | None
    devices: tuple[Use, ...] = ()
    models: tuple[Held, ...] = ()
    strain: Strain | None = None


def used_on(reading: Reading | None, number: int) -> int | None:
    """Return what was in use then on the device of this number, if that is known."""
    if reading is None or number >= len(reading.devices):
        return None
    return reading.devices[number].used_bytes


class Peak(NamedTuple):
    """The largest use of a device in some time, in bytes; `at_most` is None if not known."""

    at_least: int
    at_most: int | None


Peaks = tuple[Peak | None, ...]


def now(reading: Reading) -> Peaks:
    """Return the use at this moment as peaks."""
    used = [use.used_bytes for use in reading.devices]
    return tuple(None if amount is None else Peak(amount, amount) for amount in used)


def between(before: Reading, after: Reading) -> Peaks:
    """Return each device's peak from one reading to the next, both moments included."""
    return tuple(_between(*pair) for pair in zip(before.devices, after.devices, strict=True))


def larger(one: Peaks, other: Peaks) -> Peaks:
    """Return the peaks of both times together; a device without figures changes nothing."""
    return tuple(_larger(*pair) for pair in zip(one, other, strict=True)) if one else other


def perhaps(one: Peaks, other: Peaks) -> Peaks:
    """Return the peaks of one time; those of the other time may or may not belong to it."""
    return larger(one, tuple(
        mine and most and Peak(mine.at_least, most.at_most)
        for mine, most in zip(one, other, strict=True)
    )) if one else one


def reached(before: Use, after: Use) -> int | None:
    """Return the largest use that certainly occurred after `before`."""
    if after.used_bytes is None or after.peak_bytes is None:
        return after.used_bytes
    if after.peak_bytes == before.counter_bytes or before.counter_bytes is None:
        return after.used_bytes
    together = min(before.other_bytes, after.other_bytes) + after.peak_bytes
    # Pages that were freed for torch and loaded again were not there at torch's peak.
    return max(after.used_bytes, min(together, after.total_bytes or together))


def _between(before: Use, after: Use) -> Peak | None:
    certain, counted = reached(before, after), before.counter_bytes
    if certain is None or before.used_bytes is None:
        return None if certain is None else Peak(certain, None)
    at_least = max(certain, before.used_bytes)
    if after.peak_bytes is None or counted is None or after.peak_bytes < counted:
        return Peak(at_least, None)
    others = max(before.other_bytes, after.other_bytes)
    return Peak(at_least, max(at_least, others + after.peak_bytes))


def _larger(one: Peak | None, other: Peak | None) -> Peak | None:
    if one is None or other is None:
        return one or other
    ends = [peak.at_most for peak in (one, other) if peak.at_most is not None]
    return Peak(max(one.at_least, other.at_least), max(ends) if len(ends) == 2 else None)
