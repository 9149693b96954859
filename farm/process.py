"""A server's process: started so that it never outlives the actor that started it."""

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .words import FarmError

PR_SET_PDEATHSIG = 1  # prctl(2)
PORTS = range(21_000, 32_768)  # above those of Ray, below those that systems give away


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
    """Return a port of 127.0.0.1 that is free, and that no system gives to a program by chance.

    A server takes long to start: another program must not get its port meanwhile.
    """
    while True:
        port = random.choice(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def bound(host: str, port: int) -> socket.socket:
    """Return a socket at this address; FarmError where another program has it."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise FarmError(f"{host}:{port} cannot be opened: {error.strerror or error}.") from error


def _ends_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes the server: ask the kernel to end it in time."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded here: between fork and exec nothing may be
    parent = os.getpid()

    def setup() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was asked
            os._exit(1)

    return setup
