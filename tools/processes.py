"""Start and end child processes so that none outlives the program that started it."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

PR_SET_PDEATHSIG = 1  # prctl(2)


def child_setup() -> Callable[[], None]:
    """What a POSIX child does between fork and exec; everything it needs is loaded here."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    parent = os.getpid()

    def setup() -> None:
        # A shell's background job ignores SIGINT and children inherit that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it died before the kernel was asked
                os._exit(1)

    return setup


def start_process(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: BinaryIO | int
) -> subprocess.Popen[bytes]:
    """Start `command` in its own process group, both streams into `output` (or subprocess.PIPE).

    On Linux the kernel ends it when its parent dies, whatever the reason.
    """
    options: dict[str, Any] = {"start_new_session": True, "preexec_fn": child_setup()}
    if os.name == "nt":
        options = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return subprocess.Popen(
        list(command), cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.STDOUT, **options,
    )


def run_in_foreground(
    command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None
) -> int:
    """Run `command` on this terminal and return its exit code; the command handles Ctrl-C itself.

    A request to end this program is passed on, so that the command can stop what it started.
    """
    options: dict[str, Any] = {} if os.name == "nt" else {"preexec_fn": child_setup()}
    process = subprocess.Popen([str(word) for word in command], cwd=cwd, env=env, **options)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        return _wait_through_ctrl_c(process)
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait_through_ctrl_c(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # the terminal sent it to the command too


def end_like_ctrl_c() -> None:
    """Make a request to end this program do what Ctrl-C does: its clean-up runs.

    So does a terminal that is closed, unless the program is to go on then (`nohup`).
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, interrupt)


def end_process(process: subprocess.Popen[bytes], grace_seconds: float = 10.0) -> None:
    """End the process and its group, by a request, then by force; wait until it has ended."""
    if process.poll() is None:
        _ask_to_stop(process)
        try:
            process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            pass  # it had its time; the group is killed below
    _kill_group(process)
    process.wait()


def _ask_to_stop(process: subprocess.Popen[bytes]) -> None:
    """What Ctrl-C does, so that the program runs its own clean-up."""
    polite = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)
    try:
        process.send_signal(polite)
    except OSError:
        return  # gone in the meantime


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group; nothing happens when all of it has ended."""
    if os.name == "nt":
        if process.poll() is None:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], **quiet)  # type: ignore[call-overload]
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # the whole group has ended (macOS answers "not permitted" for a zombie)
