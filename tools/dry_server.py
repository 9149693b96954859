"""A ComfyUI on the fake CUDA driver with model files without weights: what runs take, dry.

    with DryServer(tree, folder, capacity_mib=8192) as dry:
        dry.add_models({"checkpoints/a.safetensors": content})
        dry.client.run(prompt)
        dry.driver.device().peak_used_bytes

Copies of weights are counted and not made, so that a model takes no RAM. Pictures mean nothing;
see lab/fakecuda/README.md for what is real.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import DevError
from .fit_range import LIMIT
from .graph import forget_everything
from .lab import REAL_GPU_PACK, fake_cuda
from .models import Part
from .server import ComfyServer, known_flags
from .sparse_files import SparseFile, write_sparse

DRY_PACK = Path(__file__).resolve().parent / "packs" / "headroom_dry"
COPY_AT_MOST_KIB = 64  # ids, positions and sigmas come through, weights do not
ROOM_MIB = 1 << 20
Json = dict[str, Any]
# Above this size glibc returns freed memory, and new memory takes RAM only when written.
LAZY_RAM = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
NO_COMPILING = {"TORCHDYNAMO_DISABLE": "1"}  # compiled code cannot run here
# ComfyUI takes ready nodes out of sets of texts: without this, in another order at each start.
SAME_ORDER = {"PYTHONHASHSEED": "0"}
EMBEDDING_FOLDER = "HEADROOM_EMBEDDING_FOLDER"
MIB = 1 << 20


def needed_flags(comfyui: Path) -> tuple[str, ...]:
    """Those without which dynamic VRAM reads all weights into pinned RAM (Flux: 17 GiB), and a
    language model records CUDA graphs, which the driver has none of.
    """
    flags = known_flags(comfyui)
    return (*(["--disable-pinned-memory"] if "--disable-dynamic-vram" in flags else []),
            *(flag for flag in ("--disable-cuda-graphs",) if flag in flags))


class DryServer:
    """One such server. `settings` are those of `fakecuda.FakeCuda`, `options` a ComfyServer's.

    DevError where this machine cannot have the driver.
    """

    def __init__(
        self, comfyui: Path, base: Path, capacity_mib: float = ROOM_MIB, *,
        flags: Sequence[str] = (), packs: Sequence[Path] = (),
        settings: Mapping[str, Any] | None = None, **options: Any,
    ) -> None:
        package = fake_cuda()
        if reason := package.why_not():
            raise DevError(f"A dry run is not possible here: {reason}.")
        devices = package.FakeCuda(
            **{"capacity_mib": capacity_mib, "copy_at_most_kib": COPY_AT_MOST_KIB,
               **(settings or {})})
        self.models, self.embeddings = Path(base) / "models", Path(base) / "embeddings"
        own = {EMBEDDING_FOLDER: str(self.embeddings.resolve()), LIMIT: ""}  # never the user's
        env = {**LAZY_RAM, **NO_COMPILING, **SAME_ORDER, **options.pop("env", {}), **own}
        self._server = ComfyServer(comfyui, Path(base), args=(*flags, *needed_flags(comfyui)),
                                   packs=(*packs, REAL_GPU_PACK, DRY_PACK),
                                   fake_cuda=devices.words(), env=env, **options)

    def __enter__(self) -> "DryServer":
        self._server.start()
        self.client = self._server.client()
        self.driver = fake_cuda().Ledger(self._server.fake_ledger)
        self.fresh_bytes = self.driver.device().used_bytes
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def pid(self) -> int:
        assert self._server.process is not None
        return self._server.process.pid

    def log_text(self) -> str:
        return self._server.log_text()

    def shapes(self, wanted: Sequence[Part]) -> list[Json]:
        """The weights of architectures of public_architectures.py, as this ComfyUI has them.

        DevError where it cannot make one of them.
        """
        status, answer = self.client.post_json("/dry/shapes", {"wanted": list(wanted)})
        if status != 200:
            raise DevError(f"This ComfyUI could not name its models' weights: {answer}")
        return list(answer)

    def add_models(self, files: Mapping[str, SparseFile]) -> None:
        """Put files into the server's models folder; also while it runs."""
        for place, content in files.items():
            write_sparse(self.models / place, content)

    def limit(self, words: str) -> None:
        """Let the server take no more of the device from now on, as HEADROOM_VRAM_LIMIT does."""
        self.client.post_when_idle("/headroom/limit", {"limit": words})

    def empty(self, capacity_mib: float) -> None:
        """Give the device this size, with nothing on it, and let the next run be the first.

        No result, embedding or lesson of an earlier one is left.
        """
        self.driver.set(capacity_bytes=ROOM_MIB * MIB)
        forget_everything(self.client)
        self.client.post_when_idle("/headroom/purge", {})
        self.client.post_json("/dry/forget", {})
        shutil.rmtree(self.embeddings, ignore_errors=True)
        self.driver.set(capacity_bytes=int(capacity_mib * MIB))
        self.driver.reset_peaks()
