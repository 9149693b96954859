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


class KeptPeaks:
    """Keeps peaks across runs.

    A run that began before a reset counts with all of its peaks: nobody knows their times.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._since, self._highest = time.time(), Highest()

    def run_is_over(self, run: Run) -> None:
        """Keep the peaks of a run; a few microseconds."""
        self._keep(_of_run(run))

    def as_json(self, now: Snapshot, recorder: Recorder) -> dict[str, Any]:
        """Return the peaks in MiB, and their beginning in seconds since the epoch.

        They include `now` and the run that is in progress.
        """
        for prompt_id in recorder.newest_ids()[:1]:
            found = recorder.look(prompt_id, lambda run: _of_run(run) if run.ended is None else {})
            self._keep(found or {})
        used = {device.device: device.used_bytes for device in now.devices}
        self._keep({**used, RAM: now.rss_bytes})
        with self._lock:
            held = {name: in_mib(amount) for name, amount in self._highest.items()}
            return {"since": round(self._since, 3), "rss_mib": held.pop(RAM, None), "devices": held}

    def _keep(self, found: dict[str, int | None]) -> None:
        with self._lock:
            for name, amount in found.items():
                if amount is not None:
                    self._highest[name] = max(self._highest.get(name, 0), amount)


def _of_run(run: Run) -> dict[str, int | None]:
    peaks = zip(run.devices, run.peaks, strict=False)
    return {**{device: peak and peak.at_least for device, peak in peaks}, RAM: run.peak_rss_bytes}
