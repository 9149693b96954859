"""What a benchmark runs on: a server with the simulated GPU, with `--gpu` the machine's own, with
`--fake-cuda` PyTorch's own CUDA allocator on the fake driver of lab/fakecuda.

All answer the same questions, so that one benchmark measures any of them.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import models
from .client import Client, PromptFailed, node_texts
from .graph import Graph, Node, forget_everything
from .lab import PACKS, REAL_GPU_PACK, driver_ledger
from .server import ComfyServer, known_flags

NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM = "--disable-cuda-malloc", "--disable-dynamic-vram"
# What the simulated GPU does not have either, so that figures can be compared.
PLAIN = (NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM)
ROOM_MIB = 16384
TIMEOUT_S = 7200.0
MIB = 2**20
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


class Device:
    """The GPU under a server: its figures and limits, and prompts that are tried on it."""

    def __init__(
        self, client: Client, gpu: bool = False, room_mib: int = ROOM_MIB, driver: Any = None
    ) -> None:
        self.client = client
        self.room_mib = room_mib
        self.driver = driver  # the ledger of the fake CUDA driver, where that is the device
        self._prefix = "/realgpu" if gpu or driver else "/simgpu"

    def ledger(self) -> Json:
        """All figures as they are."""
        return dict(self.client.get_json(f"{self._prefix}/ledger"))

    def collect(self) -> Json:
        """All figures after a run of the server's garbage collector."""
        return self.post("collect")

    def reset_peaks(self) -> Json:
        """Reset the peaks to the current figures, and return these."""
        if self.driver:
            self.driver.reset_peaks()
        return self.post("reset_peaks")

    def set_capacity(self, mib: float) -> None:
        """Give the device this size; what is on it stays."""
        if self.driver:
            self.driver.set(capacity_bytes=int(mib * MIB))
        else:
            self.post("capacity", {"mib": mib})

    def total_mib(self) -> float:
        """The size of the GPU itself, without a limit."""
        return float(self.post("capacity", {"mib": 1 << 30})["capacity_bytes"]) / MIB

    def free_is_pending(self) -> bool:
        """Whether ComfyUI has yet to act on a `POST /free`."""
        return bool(self.client.get_json(f"{self._prefix}/pending")["free"])

    def post(self, what: str, body: Json | None = None) -> Json:
        status, answer = self.client.post_json(f"{self._prefix}/{what}", body or {})
        if status != 200:
            raise RuntimeError(f"{self._prefix}/{what} answered {status}: {answer}")
        return dict(answer or {})  # a fault that is taken away answers nothing

    # -- prompts ------------------------------------------------------------------------------

    def run(self, graph: Graph) -> Json:
        """The history entry of the graph's run."""
        return self.client.run(graph.prompt, timeout=TIMEOUT_S)

    def told(self, graph: Graph, node: Node) -> Any:
        """What a node of the graph says in JSON."""
        return json.loads(node_texts(self.run(graph))[node.id])

    def empty(self) -> None:
        """Take everything off the device and give it room."""
        self.set_capacity(self.room_mib)
        forget_everything(self.client)
        self.collect()

    def attempt(self, prompt: Json, capacity_mib: float) -> str | None:
        """Run on an empty device of that capacity: None, or the out-of-memory error's words."""
        self.empty()
        return self.attempt_as_it_is(prompt, capacity_mib)

    def attempt_as_it_is(self, prompt: Json, capacity_mib: float) -> str | None:
        """The same without emptying the device first."""
        self.set_capacity(capacity_mib)
        self.reset_peaks()
        try:
            self.client.run(prompt, timeout=TIMEOUT_S)
        except PromptFailed as error:
            if not (error.out_of_memory or _ended_in_tiles(error)):
                raise
            kind = error.exception_type.rpartition(".")[2]
            words = error.exception_message.strip().splitlines()[0]
            return f"{error.node_type}: {kind}: {words}"
        return None

    def words(self, prompt: Json, capacity_mib: float) -> str:
        """What came of an attempt: "completed", or the error's words."""
        return self.attempt(prompt, capacity_mib) or "completed"


def _ended_in_tiles(error: PromptFailed) -> bool:
    """Whether ComfyUI's decode was out of memory, went on in tiles, and these failed in any way."""
    return error.node_type == "VAEDecode" and "in decode_tiled" in error.traceback


class Bench(Device):
    """A server under measurement, with its device."""

    def __init__(self, server: ComfyServer, gpu: bool = False, room_mib: int = ROOM_MIB) -> None:
        import psutil

        driver = driver_ledger(server.fake_ledger) if server.fake_cuda is not None else None
        super().__init__(server.client(), gpu, room_mib, driver)
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
            yield Bench(server, getattr(args, "gpu", False), capacity_mib or ROOM_MIB)


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
