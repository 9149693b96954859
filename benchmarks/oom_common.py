"""What the OOM Guard benchmarks share: the server, the prompt's parts, and the recorded result."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from devtools import bench_tables, models, results  # noqa: E402
from devtools.graph import Graph, Node  # noqa: E402
from devtools.server import ComfyServer  # noqa: E402

PACK = ROOT / "tests" / "host" / "packs" / "headroom_oom_probe"
EVERYTHING = {"free_other_models": True, "offload_weights": True, "split_batch": True,
              "tile_vae": True, "max_attempts": 8}
WITHOUT_SPLIT = {**EVERYTHING, "split_batch": False, "tile_vae": False}


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


def loader(graph: Graph, name: str) -> Node:
    return graph.add("CheckpointLoaderSimple", ckpt_name=Path(name).name)


def guarded(graph: Graph, model: Any, options: dict[str, Any] | None) -> Any:
    """`model` behind an OOM Guard; as it is where `options` is None."""
    return model if options is None else graph.add("HeadroomOOMGuard", model=model, **options)


def answer(entry: dict[str, Any], node: Node) -> dict[str, Any]:
    """The JSON answer of a probe node."""
    found: dict[str, Any] = json.loads(entry["outputs"][node.id]["text"][0])
    return found


def record(name: str, result: dict[str, Any], comfyui: str) -> Path:
    """Record the result with what it was measured on, write the tables, and return where."""
    path = results.record(name, result, comfyui, gpu=result.get("device") == "GPU")
    bench_tables.publish()
    return path
