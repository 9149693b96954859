"""Memory at one moment, and what two moments tell about the time between them.

torch keeps the largest reserve since the process began, so a peak below that leaves no trace there
(and starting that counter again would spoil it for others who read it). It also adds up what it has
given back to the driver. Where that sum stands still between two readings, the reserve can only
have grown, and its peak is the later reading: exact, however short it was. Where it grew, memory
was given back somewhere in between, and only bounds are known: what went back at once had been
reserved at once, and torch counts how often it gave back.
"""

from typing import NamedTuple

from ..host.types import Held


class Use(NamedTuple):
    """One device at one moment, in bytes; None where nobody tells.

    `used_bytes` is what every process uses, or without a driver that tells (then `total_bytes` is
    None) what this one does; `reserved_bytes` what torch does of it, `returned_bytes` what torch
    has ever given back and `emptied_count` in how many turns, `peak_bytes` its largest reserve so
    far, `allocated_bytes` what tensors have of the reserve now.
    """

    used_bytes: int | None = None
    reserved_bytes: int = 0
    returned_bytes: int | None = None
    peak_bytes: int | None = None
    total_bytes: int | None = None
    allocated_bytes: int | None = None
    emptied_count: int | None = None

    @property
    def other_bytes(self) -> int:
        """What others use, and this process beside torch's reserve (contexts, dynamic VRAM)."""
        return max((self.used_bytes or 0) - self.reserved_bytes, 0)


class Reading(NamedTuple):
    """Memory at one moment (`at`: seconds of a monotonic clock), for each device of the run.

    `models` are those that ComfyUI held there; looked up where nodes begin and end only.
    """

    at: float
    rss_bytes: int | None
    devices: tuple[Use, ...] = ()
    models: tuple[Held, ...] = ()


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


def reached(before: Use, after: Use) -> int | None:
    """Return the largest use that was certainly there after `before`."""
    if after.used_bytes is None:
        return None
    is_new = _is_new_maximum(before, after)
    reserve = after.peak_bytes if is_new else _returned_at_once(before, after)
    others = min(before.other_bytes, after.other_bytes)
    return max(after.used_bytes, others + (reserve or 0))


def _between(before: Use, after: Use) -> Peak | None:
    certain = reached(before, after)
    if certain is None:
        return None
    if before.used_bytes is None:
        return Peak(certain, None)
    at_least = max(certain, before.used_bytes)
    reserve = _largest_reserve(before, after)
    if reserve is None:
        return Peak(at_least, None)
    others = max(before.other_bytes, after.other_bytes)
    return Peak(at_least, max(at_least, others + reserve))


def _largest_reserve(before: Use, after: Use) -> int | None:
    """Return what torch's reserve cannot have exceeded in between."""
    if _is_new_maximum(before, after):
        return after.peak_bytes
    was_reset = (after.peak_bytes or 0) < (before.peak_bytes or 0)
    bounds = [] if after.peak_bytes is None or was_reset else [after.peak_bytes]
    returned = _returned(before, after)
    if returned is not None:
        bounds.append(after.reserved_bytes + returned)
    return min(bounds, default=None)


def _returned_at_once(before: Use, after: Use) -> int | None:
    """Return what torch gave back in its largest turn at least."""
    if before.emptied_count is None or after.emptied_count is None:
        return None
    returned, turns = _returned(before, after), after.emptied_count - before.emptied_count
    return -(-returned // turns) if returned is not None and turns > 0 else None


def _returned(before: Use, after: Use) -> int | None:
    """Return what torch gave back in between, None where nobody counted."""
    if before.returned_bytes is None or after.returned_bytes is None:
        return None
    returned = after.returned_bytes - before.returned_bytes
    return returned if returned >= 0 else None  # fell: somebody reset the counters


def _is_new_maximum(before: Use, after: Use) -> bool:
    if before.peak_bytes is None or after.peak_bytes is None:
        return False
    return after.peak_bytes > before.peak_bytes


def _larger(one: Peak | None, other: Peak | None) -> Peak | None:
    if one is None or other is None:
        return one or other
    ends = [peak.at_most for peak in (one, other) if peak.at_most is not None]
    return Peak(max(one.at_least, other.at_least), max(ends) if len(ends) == 2 else None)
