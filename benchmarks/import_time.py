"""What importing the pack costs a ComfyUI that already runs, in milliseconds.

    python benchmarks/import_time.py --comfyui PATH
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

NAME = "import_time"
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from devtools.bench_run import alone  # noqa: E402

CHILD = """
import sys, time, importlib.util
sys.path.insert(0, {comfyui!r})
sys.argv = ["main.py", "--cpu"]
import comfy.options
comfy.options.enable_args_parsing()
import utils.extra_config, app.frontend_management  # before nodes.py changes the path
import execution, folder_paths, server, nodes, comfy.sd, comfy_api.latest, aiohttp, psutil
started = time.perf_counter()
spec = importlib.util.spec_from_file_location(
    "headroom_pack", {root!r} + "/__init__.py", submodule_search_locations=[{root!r}])
pack = importlib.util.module_from_spec(spec)
sys.modules["headroom_pack"] = pack
spec.loader.exec_module(pack)
import asyncio
asyncio.run(pack.comfy_entrypoint())
print((time.perf_counter() - started) * 1000)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5)


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return {import_ms: median, all_ms: [...]}; bytecode is compiled by the first, unused run."""
    code = CHILD.format(comfyui=str(args.comfyui), root=str(ROOT))
    times = [_once(code) for _ in range(args.repeats + 1)][1:]
    return {"import_ms": round(statistics.median(times), 1), "all_ms": times}


def _once(code: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    return round(float(done.stdout.strip().splitlines()[-1]), 1)


if __name__ == "__main__":
    alone(sys.modules[__name__])
