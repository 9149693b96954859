"""A server's process: started so that it never outlives the actor that started it."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl(2)


def start(
    command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, what it prints goes into `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command), cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=os.name != "nt",
            preexec_fn=_ends_with_parent(),
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group by force, stopped or hung ones too, and wait for that."""
    try:
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended
    process.wait()


def last_words(log: Path) -> str:
    """Return the last line that a server printed, for a message."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ends_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes the server: ask the kernel to end it in time."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded here: between fork and exec nothing may be

    def setup() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return setup
