"""Servers that are forked from a Python which has imported what all of them import.

More than half of a server's start is the import of torch, torchvision and transformers, the same in
every one, so that all test processes of a run share one such Python. Torch chooses between its own
allocator and the driver's while it is imported: servers on fake devices come from one of two more.
What needs another Python or environment is started in the plain way.
"""

import errno
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from fakecuda.settings import LAUNCHER, parse_command
from tools.processes import start_process

PROGRAM = Path(__file__).with_name("warm_main.py")
# What a server of 0.3.75 and of 0.33.0 spends most of its start on; none starts a thread.
MODULES = (
    "torch", "torchvision", "torchaudio", "torchsde", "transformers", "transformers.models.clip",
    "numpy", "scipy.stats", "scipy.optimize", "aiohttp.web", "PIL.Image", "PIL.PngImagePlugin",
    "av", "einops", "kornia", "spandrel", "safetensors.torch", "sqlalchemy", "alembic", "yaml",
    "pydantic", "pydantic_settings", "psutil", "tqdm", "sentencepiece", "tokenizers",
)
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
# No library reads these while it is imported; the driver does when it is asked for the first time,
# and torch, whether its own allocator expands its segments and whether it may compile.
IGNORED = ("HEADROOM_", "PYTEST_", "FAKECUDA_", "SIMGPU_", ALLOCATOR, "PYTORCH_ALLOC_CONF",
           "TORCHDYNAMO_DISABLE")
DRIVERS_OWN = "backend:cudaMallocAsync"  # ComfyUI chooses it before it imports torch
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())


class WarmPythons:
    """Starts processes as `tools.processes.start_process` does, those that can be, by a fork."""

    def __init__(self, modules=MODULES):
        self._modules = modules
        self._pythons = {}

    def start(self, command, *, cwd, env, output):
        """A running process of `command`, with the methods of a Popen that a server needs."""
        kind, more = "plain", {}
        if str(command[1]) == str(LAUNCHER):
            settings, program, arguments = parse_command(list(command[2:]))
            env = settings.environment(env)
            command = [command[0], str(LAUNCHER.with_name("start.py")), str(program), *arguments]
            kind = env.get(ALLOCATOR, "")
            if (settings.allocator == "program" and not program.is_file()
                    and "--disable-cuda-malloc" not in arguments):
                kind = env[ALLOCATOR] = DRIVERS_OWN
            kind = DRIVERS_OWN if kind == DRIVERS_OWN else "torch's own"
            more = {ALLOCATOR: kind} if kind == DRIVERS_OWN else {}
        python = self._pythons.setdefault(kind, WarmPython(self._modules, more))
        return python.start(command, cwd=cwd, env=env, output=output)

    def stop(self):
        """End what was started here; with the last test process the Pythons end, too."""
        for python in self._pythons.values():
            python.stop()


class WarmPython:
    """Starts processes as `tools.processes.start_process` does, those that can be, by a fork.

    The modules are imported with `more` in the environment.
    """

    def __init__(self, modules, more):
        self._modules, self._more = modules, more
        self._lock = threading.Lock()
        self._process = self._channel = self._env = None

    def start(self, command, *, cwd, env, output):
        """A running process of `command`."""
        if not self._fits(command, env):
            return start_process(command, cwd=cwd, env=env, output=output)
        with self._lock:
            if self._channel is None:
                self._env = _others(env)
                self._channel = self._connected()
        words = {"argv": list(command[1:]), "cwd": str(cwd), "env": dict(env)}
        return Forked(self, self.ask(words, output.fileno())["pid"])

    def ask(self, words, *descriptors):
        """Send one request and return its answer."""
        with self._lock:
            data = json.dumps(words).encode() + b"\n"
            sent = socket.send_fds(self._channel, [data], list(descriptors))
            self._channel.sendall(data[sent:])
            answer = b""
            while not answer.endswith(b"\n"):
                part = self._channel.recv(1 << 16)
                if not part:
                    raise RuntimeError("the warm Python has ended")
                answer += part
            return json.loads(answer)

    def stop(self):
        """End whatever it still runs for this process."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _fits(self, command, env):
        if str(command[0]) != sys.executable or not sys.platform.startswith("linux"):
            return False
        return self._env is None or _others(env) == self._env

    def _connected(self):
        """A connection to the warm Python of this test run; who asks first starts it."""
        env = {**self._env, **self._more}
        name = repr((sys.executable, self._modules, sorted(env.items())))
        address = f"\0headroom-{RUN}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        while True:
            with socket.socket(socket.AF_UNIX) as listening:
                try:
                    listening.bind(address)
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                else:
                    listening.listen()
                    self._process = subprocess.Popen(
                        [sys.executable, str(PROGRAM), str(listening.fileno()), *self._modules],
                        env=env, stdin=subprocess.DEVNULL, pass_fds=[listening.fileno()],
                        start_new_session=True,
                    )
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(address)
                return channel
            except ConnectionRefusedError:  # it does not listen yet, or it has just ended
                channel.close()


class Forked:
    """A process that the warm Python started."""

    def __init__(self, warm, pid):
        self._warm, self.pid, self.returncode = warm, pid, None
        self._ended = os.pidfd_open(pid)

    def poll(self):
        """The exit code, or None while it runs."""
        if self.returncode is None:
            self.returncode = self._warm.ask({"poll": self.pid})["code"]
            if self.returncode is not None:
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout=None):
        """Wait for its end; subprocess.TimeoutExpired when that takes longer."""
        if self.poll() is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked server", timeout)
        return self.poll()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _others(env):
    """The part of an environment that libraries read while they are imported."""
    return {name: value for name, value in env.items() if not name.startswith(IGNORED)}
