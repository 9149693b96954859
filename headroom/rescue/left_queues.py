"""What servers left that have ended: the files of their queues that no process has locked."""

import logging
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from .queue_file import ENDING, OUTPUTS, DatabaseError, ErrorOfNow, KeptPrompt, QueueFile, Sample

log = logging.getLogger("headroom")

DAMAGED = ".damaged"


class LeftQueue(NamedTuple):
    """What an ended server left; this process has locked it until `file` is removed or closed."""

    file: QueueFile
    prompts: list[KeptPrompt]
    samples: list[Sample]
    ended_at: float  # seconds since the epoch, by the last entry of its file


def left_queues(folder: Path) -> list[LeftQueue]:
    """Return what ended servers left; the one that ended last is the last. Raises OSError.

    Files of running servers stay, and those that cannot be opened now; those without prompts are
    deleted, damaged ones renamed with a warning.
    """
    found = [left for path in sorted(folder.glob(f"*{ENDING}")) if (left := _left(path))]
    for outputs in folder.glob(f"*{OUTPUTS}"):
        if not outputs.with_suffix(ENDING).exists():
            shutil.rmtree(outputs, ignore_errors=True)
    return sorted(found, key=lambda left: left.ended_at)


def _left(path: Path) -> LeftQueue | None:
    file = None
    try:
        status = path.stat()
        if not status.st_size:
            return None  # of a server that is just starting and has not locked it yet
        file = QueueFile(path)
        prompts, samples = file.prompts(), file.samples()
    except (OSError, ValueError, TypeError, RecursionError, DatabaseError) as error:
        if file is not None:
            file.close()
        if not isinstance(error, (OSError, ErrorOfNow)) or "no such" in str(error):
            _set_aside(path, error)
        elif not isinstance(error, FileNotFoundError) and "locked" not in str(error):
            log.warning("[Headroom] the kept queue %s stays for the next start: %s", path, error)
        return None
    if not prompts:
        file.remove()
        return None
    return LeftQueue(file, prompts, samples, samples[-1].at if samples else status.st_mtime)


def _set_aside(path: Path, error: Exception) -> None:
    aside = path.with_suffix(DAMAGED)
    log.warning("[Headroom] the kept queue %s cannot be read (%s): it is now %s, in %s",
                path.name, error, aside.name, path.parent)
    try:
        os.replace(path, aside)
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
    except OSError as failed:
        log.warning("[Headroom] %s", failed)
