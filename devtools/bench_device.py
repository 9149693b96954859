"""The device that a benchmark runs on: the simulated GPU, or with `--gpu` the machine's own.

Both answer the same questions, so that one benchmark measures either.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .client import Client
from .server import ComfyServer, known_flags

TESTS = Path(__file__).resolve().parent.parent / "tests"
REAL_PACK = TESTS / "gpu" / "packs" / "headroom_real_gpu"
PROBES = TESTS / "host" / "packs"
NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM = "--disable-cuda-malloc", "--disable-dynamic-vram"
# What the simulated GPU does not have either, so that figures can be compared.
PLAIN = (NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM)
Json = dict[str, Any]


def add_gpu(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark that measures either device be asked for the real one."""
    parser.add_argument("--gpu", action="store_true", help="on this machine's own GPU")


def serve(
    args: argparse.Namespace, base: str | Path, capacity_mib: int | None, *,
    packs: Iterable[str] = (), flags: Iterable[str] = (), expandable: bool = False,
    env: Mapping[str, str] | None = None, plain: Iterable[str] = PLAIN, **options: Any,
) -> ComfyServer:
    """A ComfyUI with our probe packs on a simulated GPU of that size, or on the whole real one.

    With None for the size it runs on the CPU where it is not the real one.
    `plain` are flags for the real one, given where this ComfyUI knows them.
    """
    folders = [PROBES / name for name in packs]
    tree = Path(args.comfyui)
    if not getattr(args, "gpu", False):
        return ComfyServer(tree, Path(base), simulate_mib=capacity_mib, packs=folders,
                           args=list(flags), expandable_segments=expandable, env=env, **options)
    setting = f"expandable_segments:{expandable}"
    settings = {"PYTORCH_CUDA_ALLOC_CONF": setting, "PYTORCH_ALLOC_CONF": setting}
    return ComfyServer(tree, Path(base), gpu=True, packs=[*folders, REAL_PACK],
                       args=[*plain_flags(tree, plain), *flags],
                       env={**settings, **(env or {})}, **options)


def plain_flags(tree: str | Path, wanted: Iterable[str] = PLAIN) -> list[str]:
    """Those of the flags that this ComfyUI knows."""
    known = known_flags(Path(tree))
    return [flag for flag in wanted if flag in known]


class Device:
    """The figures and limits of the GPU under a running server."""

    def __init__(self, client: Client, gpu: bool = False) -> None:
        self.client = client
        self._prefix = "/realgpu" if gpu else "/simgpu"

    def ledger(self) -> Json:
        """All figures as they are."""
        return dict(self.client.get_json(f"{self._prefix}/ledger"))

    def collect(self) -> Json:
        """All figures after a run of the server's garbage collector."""
        return self.post("collect")

    def reset_peaks(self) -> Json:
        """Start the peaks again at the current figures, which are returned."""
        return self.post("reset_peaks")

    def set_capacity(self, mib: float) -> None:
        """Make the device that large; what is on it stays."""
        self.post("capacity", {"mib": mib})

    def total_mib(self) -> float:
        """The size of the GPU itself, without a limit."""
        return float(self.post("capacity", {"mib": 1 << 30})["capacity_bytes"]) / 2**20

    def free_is_pending(self) -> bool:
        """Whether ComfyUI has yet to act on a `POST /free`."""
        return bool(self.client.get_json(f"{self._prefix}/pending")["free"])

    def post(self, what: str, body: Json | None = None) -> Json:
        status, answer = self.client.post_json(f"{self._prefix}/{what}", body or {})
        if status != 200:
            raise RuntimeError(f"{self._prefix}/{what} answered {status}: {answer}")
        return dict(answer)
