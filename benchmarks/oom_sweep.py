"""Fail every single allocation in turn, as SQLite tests its malloc: every run must succeed.

    python benchmarks/oom_sweep.py --comfyui PATH [--stride N]

On the simulated GPU, for k = 1, 2, 3 ... the k-th allocation after the start of the sampling (or
of the decoding, or the text encoding) fails once; the result must be bit for bit that of an
unguarded run in which nothing failed, and as many bytes must be allocated afterwards. Then each
fault inside a step is made to fail the retry too, so that batches split; results may differ by a
thousandth of the latent's range, measured in float32. Beside SD1.5 a tiny Wan (a DiT on
video latents). What ComfyUI computes before a sampling begins (the noise schedule, about 40
allocations of a few bytes) is outside any wrapper and not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent)

from oom_common import (  # noqa: E402
    EVERYTHING,
    Graph,
    answer,
    guarded,
    loader,
    models,
    record,
    server,
)

NAME = "oom_sweep"
TIMEOUT = 7200.0
SPLIT = {**EVERYTHING, "free_other_models": False, "offload_weights": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", default=os.environ.get("COMFYUI_PATH"), help="ComfyUI tree")
    parser.add_argument("--stride", type=int, default=1, help="take every N-th allocation")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return for each part how many allocations failed in turn and what went wrong."""
    parts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as base:
        with server(args.comfyui, Path(base), 2048, [models.TEST_CHECKPOINT],
                    ["--force-fp32"]) as started:
            client = started.client()
            for name, build in PARTS.items():
                graph = Graph()
                node = build(graph, args.stride)
                parts[name] = answer(client.run(graph.prompt, timeout=TIMEOUT), node)
                print(name, parts[name], file=sys.stderr, flush=True)
    return {"stride": args.stride, "parts": parts}


def _sd15(graph: Graph, stride: int, options: dict[str, Any] = EVERYTHING, batch: int = 1,
          times: int = 1) -> Any:
    model = loader(graph, models.TEST_CHECKPOINT)
    words = [graph.add("CLIPTextEncode", clip=model[1], text=text) for text in ("a cube", "bad")]
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=batch)
    return _sampling(graph, model[0], words[0], words[1], latent, stride, options, times)


def _wan(graph: Graph, stride: int, options: dict[str, Any] = EVERYTHING, batch: int = 1,
         times: int = 1) -> Any:
    video = graph.add("OomTinyWan", batch=batch)
    return _sampling(graph, video[0], video[1], video[2], video[3], stride, options, times)


def _sampling(graph: Graph, model: Any, positive: Any, negative: Any, latent: Any, stride: int,
              options: dict[str, Any], times: int) -> Any:
    return graph.add(
        "OomSweepSampling", guarded=guarded(graph, model, options), plain=model,
        positive=positive, negative=negative, latent=latent, steps=2, cfg=4.0,
        sampler="euler_ancestral", first=1, stride=stride, times=times, kind="oom",
        begins="OUTER_SAMPLE" if times == 1 else "PREDICT_NOISE",
    )


def _vae(graph: Graph, stride: int, encode: bool) -> Any:
    model = loader(graph, models.TEST_CHECKPOINT)
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=1)
    return graph.add(
        "OomSweepDecode", guarded=guarded(graph, model[2], EVERYTHING), plain=model[2],
        latent=latent, encode=encode, first=1, stride=stride, times=1, kind="oom",
    )


def _text(graph: Graph, stride: int) -> Any:
    model = loader(graph, models.TEST_CHECKPOINT)
    return graph.add(
        "OomSweepEncoder", guarded=guarded(graph, model[1], EVERYTHING), plain=model[1],
        first=1, stride=stride, times=1, kind="oom",
    )


PARTS = {
    "SD1.5 sampling": _sd15,
    "Wan sampling": _wan,
    "VAE decode": lambda graph, stride: _vae(graph, stride, False),
    "VAE encode": lambda graph, stride: _vae(graph, stride, True),
    "text encoding": _text,
    "SD1.5 sampling, batch 3, split": lambda graph, stride: _sd15(graph, stride * 7, SPLIT, 3, 2),
    "Wan sampling, batch 2, split": lambda graph, stride: _wan(graph, stride * 3, SPLIT, 2, 2),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    given = parser.parse_args()
    result = run(given)
    print(record(NAME, result, given.comfyui))
    print(json.dumps(result, indent=1))
