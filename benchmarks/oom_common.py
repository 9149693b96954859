"""What the OOM Guard benchmarks share: the server and the parts of a prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from devtools import models  # noqa: E402
from devtools.bench_run import alone  # noqa: E402
from devtools.errors import NotHere  # noqa: E402
from devtools.graph import GUARD_DEFAULTS, Graph, Node  # noqa: E402
from devtools.server import ComfyServer  # noqa: E402

__all__ = [
    "EVERYTHING", "PACK", "WITHOUT_SPLIT", "ComfyServer", "Graph", "alone", "answer", "guarded",
    "loader", "models", "only_simulated", "server", "sim_server",
]

PACK = ROOT / "tests" / "host" / "packs" / "headroom_oom_probe"
EVERYTHING = GUARD_DEFAULTS
WITHOUT_SPLIT = {**EVERYTHING, "split_batch": False, "tile_vae": False}


def only_simulated(args: Any) -> None:
    """Raise NotHere on a real GPU: its allocations cannot be made to fail, nor its size changed."""
    if getattr(args, "gpu", False):
        raise NotHere("it needs the simulated GPU")


def server(
    comfyui: str, base: Path, capacity_mib: int, files: Iterable[str], args: Iterable[str] = ()
) -> ComfyServer:
    """A ComfyUI on a simulated GPU of `capacity_mib` with the probe nodes and these models."""
    folder = models.models_folder()
    models.make_models(folder, list(files))
    return ComfyServer(
        Path(comfyui), base, simulate_mib=capacity_mib, models_dir=folder, packs=[PACK],
        args=list(args),
    )


def sim_server(started: ComfyServer, capacity_mib: int) -> Any:
    """The controls of the simulated device of a server that runs."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    from simgpu.remote import SimServer

    return SimServer(started, capacity_mib)


def loader(graph: Graph, name: str) -> Node:
    return graph.add("CheckpointLoaderSimple", ckpt_name=Path(name).name)


def guarded(graph: Graph, model: Any, options: dict[str, Any] | None) -> Any:
    """`model` behind an OOM Guard; as it is where `options` is None."""
    return model if options is None else graph.add("HeadroomOOMGuard", model=model, **options)


def answer(entry: dict[str, Any], node: Node) -> dict[str, Any]:
    """The JSON answer of a probe node."""
    found: dict[str, Any] = json.loads(entry["outputs"][node.id]["text"][0])
    return found
