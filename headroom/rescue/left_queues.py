"""What servers left that have ended: the files of their queues that no process has locked."""

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .queue_file import ENDING, OUTPUTS, DatabaseError, KeptPrompt, QueueFile, Sample, opened

log = logging.getLogger("headroom")

STARTING, STARTING_SECONDS = "starting.lock", 5.0


class LeftQueue(NamedTuple):
    """What an ended server left; this process has locked it until `file` is removed or closed."""

    file: QueueFile
    prompts: list[KeptPrompt]
    samples: list[Sample]
    ended_at: float  # seconds since the epoch, by the last entry of its file


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Make the folder, and keep out other servers that start: to them a file that is not locked yet
    would look as if a server had left it empty. Raises OSError, DatabaseError.

    On a network drive without locks it waits in vain.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(opened(folder / STARTING, STARTING_SECONDS)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def left_queues(folder: Path) -> list[LeftQueue]:
    """Return what ended servers left; the one that ended last is the last. Raises OSError.

    Files of running servers stay, and those that cannot be read, with a warning; empty ones are
    deleted.
    """
    found = [left for path in sorted(folder.glob(f"*{ENDING}")) if (left := _left(path))]
    for outputs in folder.glob(f"*{OUTPUTS}"):
        if not outputs.with_suffix(ENDING).exists():
            shutil.rmtree(outputs, ignore_errors=True)
    return sorted(found, key=lambda left: left.ended_at)


def _left(path: Path) -> LeftQueue | None:
    file = None
    try:
        written_at = path.stat().st_mtime
        file = QueueFile(path)
        prompts, samples = file.prompts(), file.samples()
    except (OSError, ValueError, TypeError, RecursionError, DatabaseError) as error:
        if file is not None:
            file.close()
        is_of_another = isinstance(error, FileNotFoundError) or "locked" in str(error)
        if not is_of_another:
            log.warning("[Headroom] the kept queue %s cannot be read, it stays there: %s",
                        path, error)
        return None
    if not prompts:
        file.remove()
        return None
    return LeftQueue(file, prompts, samples, samples[-1].at if samples else written_at)
