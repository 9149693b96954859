"""A text encoder one layer of which is larger than the card: does OOM Guard encode on the CPU?

    python benchmarks/encoder_on_cpu.py --comfyui PATH --fake-cuda [--mib 3072]

umT5-XXL as Wan uses it, at its real shapes (a file that holds no weights), on the fake CUDA driver
with ComfyUI's defaults. Its embedding of 256,384 x 4,096 is cast to float32 at once, 4,006 MiB.
Recorded are the steps of OOM Guard and whether each way completes; it is a problem where the
guarded one does not, or where it does not say that the CPU has encoded. An encoding on the CPU is
computed in full: 24 layers of zeros take some minutes on two cores.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from devtools.bench_device import add_fake_cuda
from devtools.bench_run import alone
from devtools.client import PromptFailed, failed
from devtools.dry_server import DryServer
from devtools.errors import DevError, NotHere
from devtools.graph import Graph, add_guard
from devtools.public_models import sparse_files

NAME = "encoder_on_cpu"
FILE = "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors"
TIMEOUT_S = 1800.0
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_fake_cuda(parser)
    parser.add_argument("--mib", type=int, default=3072)


def run(args: argparse.Namespace) -> Json:
    """Return how a text is encoded on a card of `--mib` MiB, with OOM Guard and without."""
    if not args.fake_cuda:
        raise NotHere("it takes the fake CUDA driver (--fake-cuda)")
    tree = Path(args.comfyui)
    try:
        files = sparse_files((FILE,), tree)
        with tempfile.TemporaryDirectory() as folder:
            dry = DryServer(tree, Path(folder), args.mib)
            dry.add_models(files)
            with dry:
                stock, guarded = _encoded(dry, False), _encoded(dry, True)
    except DevError as error:
        raise NotHere(str(error)) from error
    problems = [] if guarded["completed"] else ["the guarded encoding fails"]
    if guarded["steps"] and "on the CPU" not in guarded["steps"][-1]:
        problems.append(f"its last step was: {guarded['steps'][-1]}")
    return {"mib": args.mib, "stock": stock, "guarded": guarded, "problems": problems}


def _encoded(dry: DryServer, is_guarded: bool) -> Json:
    graph = Graph()
    name = FILE.rpartition("/")[2]
    clip = graph.add("CLIPLoader", clip_name=name, type="wan")[0]
    if is_guarded:
        clip = add_guard(graph, clip)[0]
    graph.add("PreviewAny", source=graph.add("CLIPTextEncode", clip=clip, text="a red cube"))
    started, prompt_id = time.monotonic(), dry.client.queue(graph.prompt)
    entry = dry.client.wait(prompt_id, TIMEOUT_S)
    completed = not failed(entry)
    if not completed and not (error := PromptFailed(entry)).out_of_memory:
        raise error
    tries = dry.client.get_json(f"/headroom/runs/{prompt_id}").get("oom", [])
    return {"completed": completed, "seconds": round(time.monotonic() - started, 1),
            "failed_calls": len(tries) + (not completed),
            "steps": [one["action"] for one in tries],
            "errors": [one["error"] for one in tries]}


if __name__ == "__main__":
    alone()
