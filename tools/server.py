"""One real ComfyUI server, started for a test, a benchmark or the demo."""

import atexit
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from .client import Client
from .lab import FAKE_CUDA_LAUNCHER, rehearsed_mib, simulated
from .links import link_folder
from .ports import free_port, port_is_free
from .processes import end_process, start_process

PACK_ROOT = Path(__file__).resolve().parent.parent
PACK_NAME = "headroom"
MODEL_FOLDERS = ("checkpoints", "controlnet", "diffusion_models", "loras", "text_encoders",
                 "upscale_models", "vae", "vae_approx")
BIND_ATTEMPTS = 3


class ServerError(RuntimeError):
    """ComfyUI did not start; the message ends with the last lines of its log."""


class PortTaken(ServerError):
    """The port asked for is in use by another program."""


@dataclass(eq=False)
class ComfyServer:
    """A ComfyUI server on 127.0.0.1 with its own base folder and this pack linked into it.

    By default it runs on the CPU. `simulate_mib` gives it a simulated GPU of that many MiB,
    `gpu=True` the machine's own, `fake_cuda` the fake CUDA devices that these arguments of their
    launcher describe (see lab/fakecuda/README.md). `models_dir` is a further models folder that
    it reads; `start_with` starts its process in another way than `start_process`.
    Use it as a context manager, or pair `start()` with `stop()`; it also ends with its parent.
    """

    comfyui: Path
    base_dir: Path
    _: KW_ONLY
    python: str | Path = sys.executable
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    simulate_mib: int | None = None
    packs: Iterable[Path] = ()
    log_path: Path = Path("comfyui.log")  # beside what the server writes, unless absolute
    gpu: bool = False
    fake_cuda: Sequence[str] | None = None
    models_dir: Path | None = None
    port: int = 0
    pack: Path | None = PACK_ROOT
    pack_name: str = PACK_NAME  # of its folder in custom_nodes
    start_timeout: float = 300.0
    start_with: Callable[..., subprocess.Popen[bytes]] = start_process
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.comfyui = Path(self.comfyui).resolve()
        self.base_dir = Path(self.base_dir).resolve()
        self.log_path = self.base_dir / self.log_path
        self.fake_ledger = self.base_dir / "fake_cuda.ledger"  # what its driver tells others
        self._fixed_port = self.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> Client:
        return Client(self.url)

    def log_text(self) -> str:
        """Everything the server has printed so far."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> "ComfyServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- starting -----------------------------------------------------------------------------

    def start(self) -> "ComfyServer":
        """Start the server and wait until it answers; ServerError when it cannot."""
        self.prepare_base()
        for _ in range(BIND_ATTEMPTS - 1):
            try:
                return self._start_once()
            except ServerError:
                # Another program may take a free port between our look and ComfyUI's bind.
                if self._fixed_port or not self._bind_failed():
                    raise
        return self._start_once()

    def _start_once(self) -> "ComfyServer":
        self.port = self._fixed_port or free_port()
        if self._fixed_port and not port_is_free(self._fixed_port):
            raise PortTaken(
                f"Port {self._fixed_port} of 127.0.0.1 is in use by another program; "
                "choose another one with --port or close that program."
            )
        atexit.register(self.stop)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("wb") as log:
            self.process = self.start_with(
                self.command(), cwd=self.base_dir, env=self.environment(), output=log
            )
        try:
            self._wait_until_ready(self.process)
        except BaseException:
            self.stop()
            raise
        return self

    def command(self, port: str = "") -> list[str]:
        """The command line that starts the server, on its own port or another."""
        words = self._comfy_args(port or str(self.port))
        if self.fake_cuda is not None:
            own = [*self.fake_cuda, "--ledger", str(self.fake_ledger), str(self.comfyui)]
            return [str(self.python), str(FAKE_CUDA_LAUNCHER), *own, "--", *words]
        simulate_mib = rehearsed_mib() if self.gpu else self.simulate_mib
        if simulate_mib is None:
            mode = [] if self.gpu else ["--cpu"]
            return [str(self.python), str(self.comfyui / "main.py"), *mode, *words]
        launcher = simulated(simulate_mib)
        return [str(self.python), *launcher, str(self.comfyui), "--", *words]

    def _comfy_args(self, port: str) -> list[str]:
        database = self.base_dir / "user" / "comfyui.db"
        wanted = {
            "--listen": "127.0.0.1",
            "--port": port,
            "--base-directory": str(self.base_dir),
            "--database-url": f"sqlite:///{database}",  # its default is inside the ComfyUI tree
            "--disable-auto-launch": None,
            "--disable-api-nodes": None,  # they import for a second and want the network
        }
        if self.models_dir is not None:
            wanted["--extra-model-paths-config"] = str(self.base_dir / "headroom_models.yaml")
        known = known_flags(self.comfyui)
        found = [(flag, value) for flag, value in wanted.items() if flag in known]
        words = [word for pair in found for word in pair if word is not None]
        return [*words, *self.args]

    def environment(self) -> dict[str, str]:
        """The environment of the server's process."""
        env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
        # On a busy machine threads that spin while they wait cost more than the work itself.
        env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        env.pop("PYTHONPATH", None)  # this repository on the path would hide ComfyUI's `nodes`
        return {**env, **(self.env or {})}

    def prepare_base(self) -> None:
        """Make its folder, with the packs and the models folder in it."""
        for name in ("custom_nodes", "models", "input", "output", "user"):
            (self.base_dir / name).mkdir(parents=True, exist_ok=True)
        custom_nodes = self.base_dir / "custom_nodes"
        if self.pack is not None:
            link_folder(custom_nodes / self.pack_name, self.pack)
        for folder in self.packs:
            link_folder(custom_nodes / folder.name, folder)
        if self.models_dir is not None:
            self._write_model_paths(self.models_dir)

    def _write_model_paths(self, models_dir: Path) -> None:
        paths = {"base_path": str(models_dir.resolve()), **{name: name for name in MODEL_FOLDERS}}
        config = json.dumps({"headroom_models": paths}, indent=1)  # JSON is YAML too
        (self.base_dir / "headroom_models.yaml").write_text(config, encoding="utf-8")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.start_timeout
        while not self._answers():
            if process.poll() is not None:
                raise self._error(f"stopped with exit code {process.returncode} while starting")
            if time.monotonic() > deadline:
                raise self._error(f"did not answer within {self.start_timeout:g} s")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            status, answer = Client(self.url, timeout=5).get("/system_stats")
        except OSError:
            return False
        told = answer.get("system", {}) if status == 200 and isinstance(answer, dict) else {}
        # Another program may have taken the port meanwhile, and answer the same question.
        return status == 200 and str(self.base_dir) in told.get("argv", [str(self.base_dir)])

    def _bind_failed(self) -> bool:
        log = self.log_text().lower()
        return "error while attempting to bind" in log or "address already in use" in log

    def _error(self, what: str, lines: int = 40) -> ServerError:
        tail = "\n".join(self.log_text().splitlines()[-lines:])
        return ServerError(f"ComfyUI {what}; its log {self.log_path} ends with:\n{tail}")

    # -- stopping -----------------------------------------------------------------------------

    def stop(self, grace_seconds: float = 10.0) -> None:
        """End the server and everything it started, and wait for that; does nothing twice.

        It is given `grace_seconds` for a clean-up of its own, which takes two seconds of CPU time.
        """
        process, self.process = self.process, None
        atexit.unregister(self.stop)
        if process is not None:
            end_process(process, grace_seconds)


def known_flags(comfyui: Path) -> set[str]:
    """The command line flags of a ComfyUI tree, read from its source without running it."""
    source = (comfyui / "comfy" / "cli_args.py").read_text(encoding="utf-8")
    return set(re.findall(r"""["'](--[a-z][a-z0-9_-]*)["']""", source))
