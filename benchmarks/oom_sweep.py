"""Fail every single allocation in turn, as SQLite tests its malloc: every run must succeed.

    python benchmarks/oom_sweep.py --comfyui PATH [--stride N]

On the simulated GPU, for k = 1, 2, 3 ... the k-th allocation after the start of the sampling (or
of the decoding, or the text encoding) fails once; the result must be bit for bit that of an
unguarded run in which nothing failed, and as many bytes must be allocated afterwards. SD1.5 and its
text encoder have a LoRA and are loaded in every run, so that their loading fails too. Then each
fault inside a step is made to fail the retry too, so that batches split; results may differ by a
thousandth of the latent's range, measured in float32. Beside SD1.5 a tiny Wan (a DiT on
video latents). What ComfyUI computes before a sampling begins (the noise schedule, about 40
allocations of a few bytes) is outside any wrapper and not counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent)

from oom_common import (  # noqa: E402
    EVERYTHING,
    Graph,
    alone,
    answer,
    guarded,
    loader,
    models,
    only_simulated,
    server,
)

NAME = "oom_sweep"
TIMEOUT = 7200.0
EVERY = {"first": 1, "last": 10**9, "kind": "oom"}
Build = Callable[[Graph, int], Any]
SPLIT_TOLERANCE = 1e-3  # of the latent's range
SPLIT = {**EVERYTHING, "free_other_models": False, "offload_weights": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stride", type=int, default=1, help="take every N-th allocation")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return for each part how many allocations failed in turn and what went wrong."""
    only_simulated(args)
    parts: dict[str, Any] = {}
    # In float32 ComfyUI keeps the text encoder on the CPU: it has a server of its own.
    for flags, builds in ((["--force-fp32"], PARTS), ([], TEXT)):
        with tempfile.TemporaryDirectory() as base:
            with server(args.comfyui, Path(base), 2048,
                        [models.TEST_CHECKPOINT, models.TEST_LORA], flags) as started:
                parts.update(_swept(started.client(), builds, args.stride))
    return {
        "stride": args.stride, "parts": parts,
        "allocations_failed": sum(part["tried"] for part in parts.values()),
        "problems": sum(len(part["problems"]) for part in parts.values()),
    }


def _swept(client: Any, builds: dict[str, Build], stride: int) -> Iterator[tuple[str, Any]]:
    for name, build in builds.items():
        graph = Graph()
        node = build(graph, stride)
        started = time.monotonic()
        found = answer(client.run(graph.prompt, timeout=TIMEOUT), node)
        found["seconds"] = round(time.monotonic() - started, 1)
        allowed = SPLIT_TOLERANCE * found["range"] if "split" in name else 0
        if found["largest_difference"] > allowed:
            found["problems"].append(f"differs by {found['largest_difference']} after the failure "
                                     f"of one of {found['differing']}")
        del found["differing"]
        print(name, found, file=sys.stderr, flush=True)
        if not found["tried"]:
            raise RuntimeError(f"no allocation on the GPU was made to fail in {name}")
        yield name, found


def _sd15(graph: Graph, stride: int, options: dict[str, Any] = EVERYTHING, batch: int = 1,
          times: int = 1) -> Any:
    model = _with_lora(graph)
    words = [graph.add("CLIPTextEncode", clip=model[1], text=text) for text in ("a cube", "bad")]
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=batch)
    return _sampling(graph, model[0], words[0], words[1], latent, stride, options, times)


def _with_lora(graph: Graph) -> Any:
    model = loader(graph, models.TEST_CHECKPOINT)
    return graph.add("LoraLoader", model=model[0], clip=model[1], strength_model=1.0,
                     strength_clip=1.0, lora_name=Path(models.TEST_LORA).name)


def _wan(graph: Graph, stride: int, options: dict[str, Any] = EVERYTHING, batch: int = 1,
         times: int = 1) -> Any:
    video = graph.add("OomTinyWan", batch=batch)
    return _sampling(graph, video[0], video[1], video[2], video[3], stride, options, times)


def _sampling(graph: Graph, model: Any, positive: Any, negative: Any, latent: Any, stride: int,
              options: dict[str, Any], times: int) -> Any:
    return graph.add(
        "OomSweepSampling", guarded=guarded(graph, model, options), plain=model,
        positive=positive, negative=negative, latent=latent, steps=2, cfg=4.0,
        sampler="euler_ancestral", **EVERY, stride=stride, times=times, fresh=times == 1,
        begins="OUTER_SAMPLE" if times == 1 else "PREDICT_NOISE",
    )


def _vae(graph: Graph, stride: int, encode: bool) -> Any:
    model = loader(graph, models.TEST_CHECKPOINT)
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=1)
    return graph.add(
        "OomSweepDecode", guarded=guarded(graph, model[2], EVERYTHING), plain=model[2],
        latent=latent, encode=encode, **EVERY, stride=stride, times=1,
    )


def _text(graph: Graph, stride: int) -> Any:
    model = _with_lora(graph)
    return graph.add(
        "OomSweepEncoder", guarded=guarded(graph, model[1], EVERYTHING), plain=model[1],
        **EVERY, stride=stride, times=1, fresh=True,
    )


PARTS: dict[str, Build] = {
    "SD1.5 sampling": _sd15,
    "Wan sampling": _wan,
    "VAE decode": lambda graph, stride: _vae(graph, stride, False),
    "VAE encode": lambda graph, stride: _vae(graph, stride, True),
    "SD1.5 sampling, batch 3, split": lambda graph, stride: _sd15(graph, stride * 7, SPLIT, 3, 2),
    "Wan sampling, batch 2, split": lambda graph, stride: _wan(graph, stride * 3, SPLIT, 2, 2),
}
TEXT: dict[str, Build] = {"text encoding": _text}


if __name__ == "__main__":
    alone(sys.modules[__name__])
