"""The warm Python itself: imports what every ComfyUI imports, then forks a server when asked.

`python warm_main.py SOCKET_FD MODULE ...`, started by `support.warm`, listens there. A request is
one line of JSON. `argv`, `cwd` and `env`, with the descriptor of the log, start a process:
`{"pid": N}`. `poll` with such a number answers `{"code": N}`, null while it runs. What a program
started here ends when that program closes its connection; after the last one all ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1  # prctl(2)
LONGEST = 1 << 20


def main(listening: socket.socket, modules: Sequence[str]) -> None:
    """Serve requests until nobody is connected; in a forked child, become that program."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _read_tokenizers_once()
    # A background job of a shell ignores it, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.collect()
    gc.freeze()  # so that a child's collections copy no page for it
    codes: dict[int, int] = {}
    started = _accepted(listening)
    while started or select.select([listening], [], [], 0)[0]:
        for channel in select.select([listening, *started], [], [])[0]:
            if channel is listening:
                started.update(_accepted(listening))
            elif request := _received(channel):
                words, files = request
                if "poll" in words:
                    _answer(channel, {"code": _code(words["poll"], codes)})
                    continue
                pid = _fork(files)
                if pid == 0:
                    for one in (listening, *started):
                        one.close()
                    _become(words, files[0])
                    return
                started[channel].append(pid)
                _answer(channel, {"pid": pid})
            else:
                for pid in started.pop(channel):
                    if _code(pid, codes) is None:
                        os.kill(pid, signal.SIGTERM)
                channel.close()


def _accepted(listening: socket.socket) -> dict[socket.socket, list[int]]:
    """The next who connects, with nothing started yet; nobody if it is another user."""
    channel, _ = listening.accept()
    who = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", who)[1] == os.getuid():
        return {channel: []}
    channel.close()
    return {}


def _read_tokenizers_once() -> None:
    """Let a server keep CLIP's tokenizer, which nobody changes, from one checkpoint to the next.

    To read it takes a sixth of the time of a prompt with the small models of the tests, and to list
    its words an eighth.
    """
    if transformers := sys.modules.get("transformers"):
        tokenizer: Any = transformers.CLIPTokenizer
        tokenizer.from_pretrained = functools.lru_cache(tokenizer.from_pretrained)
        tokenizer.get_vocab = functools.lru_cache(tokenizer.get_vocab)


def _received(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    data = b""
    with contextlib.suppress(ConnectionError):
        data, files, _, _ = socket.recv_fds(channel, LONGEST, 1)
        while data and not data.endswith(b"\n"):
            data += channel.recv(LONGEST)
    return (json.loads(data), files) if data else None


def _answer(channel: socket.socket, words: dict[str, Any]) -> None:
    channel.sendall(json.dumps(words).encode() + b"\n")


def _code(pid: int, codes: dict[int, int]) -> int | None:
    """The exit code of a child that has ended; a signal as a negative number."""
    if pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes[pid]


def _fork(files: list[int]) -> int:
    """Fork a child that leads a group of its own before this returns."""
    read, write = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        os.close(read)
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the kernel was asked
            os._exit(1)
        os.close(write)
        return 0
    os.close(write)
    os.read(read, 1)  # ends when the child has closed its side
    os.close(read)
    for file in files:
        os.close(file)
    return pid


def _become(words: dict[str, Any], log: int) -> None:
    """Run the script of that command line in this process, as Python itself would."""
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    os.chdir(words["cwd"])
    os.environ.clear()
    os.environ.update(words["env"])
    sys.argv = words["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
