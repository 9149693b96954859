"""Fail one allocation after the other, as SQLite tests its malloc: every run must succeed.

    python benchmarks/oom_sweep.py --comfyui PATH [--stride N]

On the simulated GPU the k-th allocation after the start of the sampling (or of the decoding, or the
text encoding) fails once, for one k in `--stride` (5; 1 takes all, in an hour); the result must be
bit for bit that of an unguarded run in which nothing failed, and as many bytes must be allocated
afterwards. SD1.5 and its text encoder have a LoRA and are loaded in every run, so that their
loading fails too. Then each fault inside a step is made to fail the retry too, so that batches
split; results may differ by a thousandth of the latent's range, measured in float32. Beside SD1.5
a tiny Wan (a DiT on video latents). What ComfyUI computes before a sampling begins (the noise
schedule, about 40 allocations of a few bytes) is outside any wrapper and not counted.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Bench, served
from tools.bench_run import alone
from tools.graph import Graph, add_checkpoint, add_guard, add_lora

NAME = "oom_sweep"
EVERY: dict[str, Any] = {"first": 1, "last": 10**9, "kind": "oom"}
Build = Callable[[Graph, int], Any]
SPLIT_TOLERANCE = 1e-3  # of the latent's range
SPLIT: dict[str, Any] = {"free_other_models": False, "offload_weights": False}
FILES = (models.TEST_CHECKPOINT, models.TEST_LORA)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stride", type=int, default=5, help="take every N-th allocation")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return for each part how many allocations failed in turn and what went wrong."""
    parts: dict[str, Any] = {}
    # In float32 ComfyUI keeps the text encoder on the CPU: it has a server of its own.
    for flags, builds in ((["--force-fp32"], PARTS), ([], TEXT)):
        with served(args, 2048, files=FILES, packs=["headroom_oom_probe"], flags=flags) as server:
            parts.update(_swept(server, builds, args.stride))
    return {
        "stride": args.stride, "parts": parts,
        "allocations": sum(part["allocations"] for part in parts.values()),
        "allocations_failed": sum(part["tried"] for part in parts.values()),
        "problems": [f"{name}: {problem}" for name, part in parts.items()
                     for problem in part["problems"]],
    }


def _swept(server: Bench, builds: dict[str, Build], stride: int) -> Iterator[tuple[str, Any]]:
    for name, build in builds.items():
        graph = Graph()
        node = build(graph, stride)
        started = time.monotonic()
        found = server.told(graph, node)
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


def _sd15(graph: Graph, stride: int, batch: int = 1, **options: Any) -> Any:
    model = _with_lora(graph)
    words = [graph.add("CLIPTextEncode", clip=model[1], text=text) for text in ("a cube", "bad")]
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=batch)
    return _sampling(graph, (model[0], words[0], words[1], latent), stride, **options)


def _with_lora(graph: Graph) -> Any:
    model = add_checkpoint(graph, models.TEST_CHECKPOINT)
    return add_lora(graph, model[0], model[1], models.TEST_LORA)


def _wan(graph: Graph, stride: int, batch: int = 1, **options: Any) -> Any:
    video = graph.add("OomTinyWan", batch=batch)
    return _sampling(graph, [video[output] for output in range(4)], stride, **options)


def _sampling(graph: Graph, parts: Sequence[Any], stride: int, every: int = 1, times: int = 1,
              **options: Any) -> Any:
    """`parts`: model, positive, negative and latent; with `times` the retry is failed too."""
    model, positive, negative, latent = parts
    return graph.add(
        "OomSweepSampling", guarded=add_guard(graph, model, **options), plain=model,
        positive=positive, negative=negative, latent=latent, steps=2, cfg=4.0,
        sampler="euler_ancestral", **EVERY, stride=stride * every, times=times, fresh=times == 1,
        begins="OUTER_SAMPLE" if times == 1 else "PREDICT_NOISE",
    )


def _vae(graph: Graph, stride: int, encode: bool) -> Any:
    vae = add_checkpoint(graph, models.TEST_CHECKPOINT)[2]
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=1)
    return graph.add("OomSweepDecode", guarded=add_guard(graph, vae), plain=vae, latent=latent,
                     encode=encode, **EVERY, stride=stride, times=1)


def _text(graph: Graph, stride: int) -> Any:
    clip = _with_lora(graph)[1]
    return graph.add("OomSweepEncoder", guarded=add_guard(graph, clip), plain=clip, **EVERY,
                     stride=stride, times=1, fresh=True)


PARTS: dict[str, Build] = {
    "SD1.5 sampling": _sd15,
    "Wan sampling": _wan,
    "VAE decode": partial(_vae, encode=False),
    "VAE encode": partial(_vae, encode=True),
    "SD1.5 sampling, batch 3, split": partial(_sd15, every=7, batch=3, times=2, **SPLIT),
    "Wan sampling, batch 2, split": partial(_wan, every=3, batch=2, times=2, **SPLIT),
}
TEXT: dict[str, Build] = {"text encoding": _text}


if __name__ == "__main__":
    alone()
