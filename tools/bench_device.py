"""What a benchmark runs on: a server with the simulated GPU, with `--gpu` the machine's own, with
`--fake-cuda` PyTorch's own CUDA allocator on the fake driver of lab/fakecuda.

All answer the same questions, so that one benchmark measures any of them.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import models
from .device import ROOM_MIB, GpuServer
from .lab import PACKS, REAL_GPU_PACK
from .server import ComfyServer, known_flags

NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM = "--disable-cuda-malloc", "--disable-dynamic-vram"
# What the simulated GPU does not have either, so that figures can be compared.
PLAIN = (NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM)
Json = dict[str, Any]


def add_gpu(parser: argparse.ArgumentParser, fake_cuda: bool = True) -> None:
    """Let a benchmark that measures any device be asked for another than the simulated one.

    Without `fake_cuda` where seconds are what it measures: kernels take none on a fake device.
    """
    parser.add_argument("--gpu", action="store_true", help="on this machine's own GPU")
    if fake_cuda:
        add_fake_cuda(parser)


def add_fake_cuda(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be asked for PyTorch's own allocator on the fake CUDA driver."""
    parser.add_argument("--fake-cuda", action="store_true",
                        help="PyTorch's own CUDA allocator on a driver without a GPU")


def plain_flags(tree: str | Path, wanted: Iterable[str] = PLAIN) -> list[str]:
    """Return those of the flags that this ComfyUI knows."""
    known = known_flags(Path(tree))
    return [flag for flag in wanted if flag in known]


class Bench(GpuServer):
    """A server under measurement, with its device."""

    def __init__(self, server: ComfyServer, room_mib: int = ROOM_MIB) -> None:
        import psutil

        super().__init__(server, room_mib)
        assert server.process is not None
        self.base = server.base_dir
        self.process = psutil.Process(server.process.pid)

    def cpu_s(self) -> float:
        """CPU time of the whole server so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def seconds(self, entry: Json) -> dict[str, float]:
        """What each node of a run took, by its id, as the recorder has it."""
        record = self.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
        return {str(node["node_id"]): node["seconds"] for node in record["nodes"]}


@contextmanager
def served(
    args: argparse.Namespace, capacity_mib: int | None, *, files: Sequence[str] = (),
    prepare: Callable[[Path], None] = lambda base: None, **options: Any,
) -> Iterator[Bench]:
    """A running server (see `serve`) with the small model `files`; `prepare` gets its folder."""
    if files:
        options["models_dir"] = models.models_folder()
        models.make_models(options["models_dir"], files, comfyui=args.comfyui)
    with tempfile.TemporaryDirectory() as base:
        prepare(Path(base))
        with serve(args, base, capacity_mib, **options) as server:
            yield Bench(server, capacity_mib or ROOM_MIB)


def serve(
    args: argparse.Namespace, base: str | Path, capacity_mib: int | None, *,
    packs: Iterable[str] = (), flags: Iterable[str] = (),
    env: Mapping[str, str] | None = None, **options: Any,
) -> ComfyServer:
    """A ComfyUI with our probe packs on a simulated or fake GPU of that size, or on a real one.

    With None for the size it runs on the CPU where it is not the real one, which is used whole.
    """
    folders = [PACKS / name for name in packs]
    tree = Path(args.comfyui)
    fake = getattr(args, "fake_cuda", False) and capacity_mib is not None
    if not (fake or getattr(args, "gpu", False)):
        return ComfyServer(tree, Path(base), simulate_mib=capacity_mib, packs=folders,
                           args=list(flags), env=env, **options)
    settings = dict.fromkeys(("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
                             "expandable_segments:False")
    words = ["--capacity-mib", str(capacity_mib)] if fake else None
    return ComfyServer(tree, Path(base), gpu=not fake, fake_cuda=words,
                       packs=[*folders, REAL_GPU_PACK], args=[*plain_flags(tree), *flags],
                       env={**settings, **(env or {})}, **options)


def narrowed(
    completes: Callable[[int], bool], low: int, high: int,
    near: Callable[[int, int], bool] = lambda low, high: high - low <= 1,
    middle: Callable[[int, int], int] = lambda low, high: (low + high) // 2,
) -> int:
    """The smallest number up to `high` that completes, or one `near` enough; `low` does not."""
    while not near(low, high):
        tried = middle(low, high)
        low, high = (low, tried) if completes(tried) else (tried, high)
    return high
