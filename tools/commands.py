"""Run a long command with its output in a log file, and explain it when it fails."""

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from .cache import cache_home
from .errors import DISK_FULL, DevError, explain_failure
from .processes import end_process, start_process

LARGE_DOWNLOAD = re.compile(r"\s*Downloading (\S+) \((\d{3,}\.\dMiB|\d+\.\dGiB)\)")


def setup_log() -> Path:
    """The log of everything that was installed or downloaded."""
    return cache_home() / "logs" / "setup.log"


def run_logged(
    command: Sequence[str | Path], doing: str, env: Mapping[str, str] | None = None
) -> None:
    """Run `command`, add its output to the setup log; DevError with one sentence if it fails."""
    log = setup_log()
    words = [str(word) for word in command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as record:
        record.write(f"\n== {time.strftime('%Y-%m-%d %H:%M:%S')} {doing}\n== {' '.join(words)}\n")
        process = start_process(
            words,
            cwd=log.parent,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **(env or {})},
            output=subprocess.PIPE,
        )
        try:
            lines = _record(process, record)
        finally:  # also if the user stops us: nothing may run on unseen
            end_process(process)
    if process.returncode:
        raise DevError(f"{explain_failure(''.join(lines), doing)} The log is {log}.")


def _record(process: subprocess.Popen[bytes], record: TextIO) -> list[str]:
    """Copy the process's lines into the log and name the large downloads on the terminal."""
    lines = []
    assert process.stdout is not None
    with process.stdout:
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace")
            lines.append(line)
            record.write(line)
            record.flush()
            if large := LARGE_DOWNLOAD.match(line):
                print(f"  {large.group(1)} ({large.group(2)})", flush=True)
    process.wait()
    return lines


def as_dev_error(error: OSError, doing: str) -> DevError:
    """The sentence for a file operation of our own that failed."""
    if any(words in str(error) for words in DISK_FULL):
        return DevError(explain_failure(str(error), doing))
    return DevError(f"The {doing} failed: {error}.")
