"""The servers of the soak: one whose files can be limited in size, one that lacks libraries."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from tools.server import ComfyServer

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

# Every file that the server writes in these prompts is smaller, but for embeddings and weights.
FILE_LIMIT_BYTES = 215 * 1024
CAN_LIMIT = resource is not None and hasattr(resource, "prlimit")
LIBRARIES = ("pynvml", "spandrel", "diffusers", "accelerate")

# None there is how Python itself marks a module that must not be found.
BLOCKER = "import sys\n\nsys.modules.update(dict.fromkeys({names!r}))\n"


class PipedServer(ComfyServer):
    """A server that writes its log into a pipe, so that a limit on files does not reach the log.

    What comes through the pipe is appended to `log_file`. On other systems than Linux the log is
    a file as ever.
    """

    def __init__(self, comfyui: Path, base_dir: Path, **options: Any) -> None:
        self.log_file = Path(base_dir) / "comfyui.log"
        self._ends: tuple[int, int] | None = None
        if sys.platform == "linux":
            self._ends = os.pipe()
            options["log_path"] = Path(f"/proc/self/fd/{self._ends[1]}")
        super().__init__(comfyui, base_dir, **options)
        self._reader = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> ComfyServer:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        if self._ends is not None and not self._reader.is_alive():
            self._reader.start()
        return super().start()

    def log_text(self) -> str:
        if not self.log_file.exists():
            return ""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def stop(self, grace_seconds: float = 10.0) -> None:
        super().stop(grace_seconds)
        ends, self._ends = self._ends, None
        if ends is not None:
            os.close(ends[1])  # the last writer is gone: the reader comes to the end
            self._reader.join()
            os.close(ends[0])

    def _copy(self) -> None:
        assert self._ends is not None
        source = self._ends[0]
        with self.log_file.open("ab", buffering=0) as target:
            while data := os.read(source, 1 << 16):
                target.write(data)


def limit_files(pid: int, nbytes: int | None) -> None:
    """Let the kernel refuse every write beyond `nbytes` in a file of that process (None: none)."""
    assert resource is not None
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    soft = hard if nbytes is None else nbytes
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def without_libraries(folder: Path) -> dict[str, str]:
    """The environment of a server in which the optional libraries cannot be imported."""
    folder.mkdir(parents=True, exist_ok=True)
    source = BLOCKER.format(names=LIBRARIES)
    (folder / "sitecustomize.py").write_text(source, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}
