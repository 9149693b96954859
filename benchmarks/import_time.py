"""What importing the pack costs a ComfyUI that already runs, in milliseconds.

    python benchmarks/import_time.py --comfyui PATH
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from on_path import ROOT

from tools.bench_run import alone

NAME = "import_time"
CHILD = """
import json, sys, time, importlib.util
sys.path.insert(0, {comfyui!r})
sys.argv = ["main.py", "--cpu"]
import comfy.options
comfy.options.enable_args_parsing()
import utils.extra_config, app.frontend_management  # before nodes.py changes the path
import execution, folder_paths, server, nodes, comfy.sd, comfy_api.latest, aiohttp, psutil
started, cpu = time.perf_counter(), time.process_time()
spec = importlib.util.spec_from_file_location(
    "headroom_pack", {root!r} + "/__init__.py", submodule_search_locations=[{root!r}])
pack = importlib.util.module_from_spec(spec)
sys.modules["headroom_pack"] = pack
spec.loader.exec_module(pack)
import asyncio
asyncio.run(pack.comfy_entrypoint())
print(json.dumps([(time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000]))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5)


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return medians of wall-clock and CPU time; the first, unused run writes the bytecode."""
    code = CHILD.format(comfyui=str(args.comfyui), root=str(ROOT))
    with tempfile.TemporaryDirectory() as bytecode:
        times = [_once(code, bytecode) for _ in range(args.repeats + 1)][1:]
    wall, cpu = ([round(time[kind], 1) for time in times] for kind in (0, 1))
    return {"import_ms": statistics.median(wall), "cpu_ms": statistics.median(cpu),
            "all_ms": wall, "all_cpu_ms": cpu}


def _once(code: str, bytecode: str) -> list[float]:
    # As in a user's second start: bytecode is there, whatever this shell says about writing it.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=ROOT.parent, env=env)
    times: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return times


if __name__ == "__main__":
    alone()
