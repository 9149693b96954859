"""Memory at one moment, and what two moments tell about the time between them.

torch counts how much it has reserved at most since its counter was started again. The recorder
reads the counter at the boundaries of nodes and starts it again there, so it stands for one node:
exact, however short the peak was, and with every allocator of torch. Between two boundaries it is
only read. A node that starts it again itself is noticed where it fell; its peak is "at least" then.

Beside the reserve there are contexts, other processes, and the pages of dynamic VRAM. No counter
has their peak: they are known at the two moments, and in between they count as what they were at
the lower one for `at_least`, at the higher one for `at_most`.
"""

from typing import NamedTuple

from ..host.types import Held
from ..measure.strain import Strain


class Use(NamedTuple):
    """One device at one moment, in bytes; None where nobody tells.

    `used_bytes` is what every process uses, or without a driver that tells (then `total_bytes` is
    None) what this one does; `reserved_bytes` what torch does of it, `peak_bytes` the most that it
    has reserved since its counter began, `allocated_bytes` what tensors have of the reserve now.
    `begins_again`: the counter was started again at this moment, after it was read.
    """

    used_bytes: int | None = None
    reserved_bytes: int = 0
    peak_bytes: int | None = None
    total_bytes: int | None = None
    allocated_bytes: int | None = None
    begins_again: bool = False

    @property
    def other_bytes(self) -> int:
        """What others use, and this process beside torch's reserve (contexts, dynamic VRAM)."""
        return max((self.used_bytes or 0) - self.reserved_bytes, 0)

    @property
    def counter_bytes(self) -> int | None:
        """Where torch's counter stands after this moment."""
        return self.reserved_bytes if self.begins_again else self.peak_bytes


class Reading(NamedTuple):
    """Memory at one moment (`at`: seconds of a monotonic clock), for each device of the run.

    `models` are those that ComfyUI held there; looked up where nodes begin and end only. `strain`
    is read now and then.
    """

    at: float
    rss_bytes: int | None
    devices: tuple[Use, ...] = ()
    models: tuple[Held, ...] = ()
    strain: Strain | None = None


class Peak(NamedTuple):
    """The largest use of a device in some time, in bytes; `at_most` None: nobody can tell."""

    at_least: int
    at_most: int | None


Peaks = tuple[Peak | None, ...]


def now(reading: Reading) -> Peaks:
    """Return the use at this very moment as peaks."""
    used = [use.used_bytes for use in reading.devices]
    return tuple(None if amount is None else Peak(amount, amount) for amount in used)


def between(before: Reading, after: Reading) -> Peaks:
    """Return each device's peak from one reading to the next, both moments included."""
    return tuple(_between(*pair) for pair in zip(before.devices, after.devices, strict=True))


def larger(one: Peaks, other: Peaks) -> Peaks:
    """Return the peaks of both times together; no figures of a device add nothing to it."""
    return tuple(_larger(*pair) for pair in zip(one, other, strict=True)) if one else other


def perhaps(one: Peaks, other: Peaks) -> Peaks:
    """Return the peaks of one time, to which those of the other may belong, or may not."""
    return larger(one, tuple(
        mine and most and Peak(mine.at_least, most.at_most)
        for mine, most in zip(one, other, strict=True)
    )) if one else one


def reached(before: Use, after: Use) -> int | None:
    """Return the largest use that was certainly there after `before`."""
    if after.used_bytes is None or after.peak_bytes is None:
        return after.used_bytes
    if after.peak_bytes == before.counter_bytes or before.counter_bytes is None:
        return after.used_bytes
    together = min(before.other_bytes, after.other_bytes) + after.peak_bytes
    # Pages that yielded to torch and came back since were not there with all that it had.
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
