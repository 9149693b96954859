"""A pytest plugin for ComfyUI's own tests: starting `main.py` returns when the server listens.

The tests try to connect five times in twenty seconds, which is too short on a busy machine. They
also kill a server and start the next on the same port without waiting for its end. Nothing else
about them changes.
"""

import os
import socket
import subprocess
import time
from typing import Any

START_TIMEOUT_S = 300.0
END_TIMEOUT_S = 60.0

os.environ.pop("PYTHONPATH", None)  # it has done its work: the server must not see it
_Popen = subprocess.Popen


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class PatientPopen(_Popen):
    """A process; for a server the constructor also waits until it listens or has ended."""

    killed: _Popen[Any] | None = None  # by the time the next one starts

    def __init__(self, args: Any, *others: Any, **options: Any) -> None:
        words = [str(word) for word in args] if isinstance(args, list) else []
        is_server = "main.py" in words and "--port" in words
        if is_server and PatientPopen.killed is not None:
            PatientPopen.killed.wait(END_TIMEOUT_S)
        super().__init__(args, *others, **options)
        if not is_server:
            return
        PatientPopen.killed = self
        port = int(words[words.index("--port") + 1])
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _listens(port) and self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)


subprocess.Popen = PatientPopen  # type: ignore[misc]
