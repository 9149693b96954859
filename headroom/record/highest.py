"""The highest use of each device and of RAM since the server began, or since the last reset."""

import threading
import time
from typing import Any

from ..base.device import in_mib
from ..measure.snapshot import Snapshot
from .recorder import Recorder
from .run import Run

Highest = dict[str, int]  # bytes, by device; RAM under its own name
RAM = "ram"


class HeldPeaks:
    """Keeps peaks across runs.

    A run that began before a reset counts with all of its peaks: nobody knows their times.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = time.time()
        self._highest: Highest = {}

    def run_is_over(self, run: Run) -> None:
        """Keep the peaks of a run; a few microseconds."""
        self._keep(_of_run(run))

    def as_json(self, now: Snapshot, recorder: Recorder) -> dict[str, Any]:
        """Return the peaks in MiB, and their beginning in seconds since the epoch.

        They include `now` and the run that is in progress.
        """
        for prompt_id in recorder.newest_ids()[:1]:
            self._keep(recorder.look(prompt_id, _of_unfinished) or {})
        self._keep(_of_snapshot(now))
        with self._lock:
            held = {name: in_mib(amount) for name, amount in self._highest.items()}
            return {"since": round(self._since, 3), "rss_mib": held.pop(RAM, None), "devices": held}

    def reset(self) -> None:
        """Forget all peaks before now."""
        with self._lock:
            self._since, self._highest = time.time(), {}

    def _keep(self, found: Highest) -> None:
        with self._lock:
            for name, amount in found.items():
                self._highest[name] = max(self._highest.get(name, 0), amount)


def _of_unfinished(run: Run) -> Highest:
    return _of_run(run) if run.ended is None else {}


def _of_run(run: Run) -> Highest:
    peaks = {device: peak.at_least for device, peak in zip(run.devices, run.peaks, strict=False)
             if peak is not None}
    return {**peaks, RAM: run.peak_rss_bytes} if run.peak_rss_bytes is not None else peaks


def _of_snapshot(now: Snapshot) -> Highest:
    used = {device.device: device.used_bytes for device in now.devices
            if device.used_bytes is not None}
    return {**used, RAM: now.rss_bytes}
