"""Servers that are forked from a Python which has imported what all of them import.

More than half of a server's start is the import of torch, torchvision and transformers, the same in
every one. Torch chooses its CUDA allocator while it is imported, so that servers on fake devices
come from a Python of their own, where they have the allocator that most have. What needs another
one, another Python or environment is started in the plain way.
"""

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
from tools.processes import child_setup, start_process

PROGRAM = Path(__file__).with_name("warm_main.py")
# What a server of 0.3.75 and of 0.33.0 spends most of its start on; none starts a thread.
MODULES = (
    "torch", "torchvision", "torchaudio", "torchsde", "transformers", "transformers.models.clip",
    "numpy", "scipy.stats", "scipy.optimize", "aiohttp.web", "PIL.Image", "PIL.PngImagePlugin",
    "av", "einops", "kornia", "spandrel", "safetensors.torch", "sqlalchemy", "alembic", "yaml",
    "pydantic", "pydantic_settings", "psutil", "tqdm", "sentencepiece", "tokenizers",
)
# No library reads these while it is imported; the driver does when it is asked for the first time.
IGNORED = ("HEADROOM_", "PYTEST_", "FAKECUDA_", "SIMGPU_")
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
CHOSEN_BY_COMFYUI = "backend:cudaMallocAsync"  # before it imports torch


class WarmPythons:
    """Starts processes as `tools.processes.start_process` does, those that can be, by a fork."""

    def __init__(self, modules=MODULES):
        self._modules = modules
        self._pythons = {}

    def start(self, command, *, cwd, env, output):
        """A running process of `command`, with the methods of a Popen that a server needs."""
        allocator = ""
        if str(command[1]) == str(LAUNCHER):
            settings, program, arguments = parse_command(list(command[2:]))
            is_server = not program.is_file()
            if is_server and (settings.allocator != "program"
                              or "--disable-cuda-malloc" in arguments):
                return start_process(command, cwd=cwd, env=env, output=output)
            env = settings.environment(env)
            command = [command[0], str(LAUNCHER.with_name("start.py")), str(program), *arguments]
            allocator = CHOSEN_BY_COMFYUI if is_server else env.get(ALLOCATOR, "")
        python = self._pythons.setdefault(allocator, WarmPython(self._modules))
        more = {ALLOCATOR: allocator} if allocator else {}
        return python.start(command, cwd=cwd, env=env, output=output, imports_with=more)

    def stop(self):
        """End all, and what they still run."""
        for python in self._pythons.values():
            python.stop()


class WarmPython:
    """Starts processes as `tools.processes.start_process` does, those that can be, by a fork."""

    def __init__(self, modules=MODULES):
        self._modules = modules
        self._lock = threading.Lock()
        self._process = self._channel = self._env = None

    def start(self, command, *, cwd, env, output, imports_with=None):
        """A process of `command`; the modules are imported with `imports_with` in `env`, too."""
        if not self._fits(command, env):
            return start_process(command, cwd=cwd, env=env, output=output)
        with self._lock:
            if self._process is None:
                self._begin(env, imports_with or {})
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
        """End it, and with it whatever it still runs."""
        if self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def _fits(self, command, env):
        if str(command[0]) != sys.executable or not sys.platform.startswith("linux"):
            return False
        return self._env is None or _others(env) == self._env

    def _begin(self, env, more):
        self._env = _others(env)
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(theirs.fileno()), *self._modules],
                env={**env, **more}, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                preexec_fn=child_setup(),
            )


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
