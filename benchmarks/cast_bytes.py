"""What Cast bf16 saves on the device and costs in RAM, for each kind of model.

    python benchmarks/cast_bytes.py --comfyui PATH

Starts one ComfyUI on the simulated GPU, whose memory figures are exact (with `--gpu` on the real
one), with every model in float32, and measures for MODEL, CLIP, VAE and CONTROL_NET
- the bytes of the model alone on the device, before and after the cast, by ComfyUI's count and by
  the allocator's;
- the server's RSS before and after the cast, and its peak while casting (on Linux);
- the relative distance of the sampled latent from float32, for MODEL;
- the seconds of a sampling step in float32 and in bfloat16, in turns.
The weights are random, in the shapes of an SD1.5-class UNet, the full CLIP-L, the full SD VAE and
an SD1.5-class ControlNet.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import MIB, Bench, add_gpu, served
from tools.bench_run import alone
from tools.client import node_texts
from tools.graph import (
    Graph,
    Node,
    add_checkpoint,
    add_controlnet,
    add_sampler,
    forget_everything,
)

NAME = "cast_bytes"
REHEARSAL = ("--turns", "1", "--size", "64")
FILES = (models.DEMO_CHECKPOINT, models.DEMO_CONTROLNET)
PACKS = ("headroom_probe", "headroom_probe_cast")
CAPACITY_MIB = 8192
FLOAT32 = ("--fp32-unet", "--fp32-vae", "--fp32-text-enc")
OUTPUTS = {"MODEL": 0, "CLIP": 1, "VAE": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--turns", type=int, default=3, help="of the step-time comparison")
    parser.add_argument("--steps", type=int, default=2, help="of each sampling that is timed")
    parser.add_argument("--size", type=int, default=128, help="pixels, of the same")


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return the figures; bytes on the device are exact, RSS is as measured."""
    with served(args, CAPACITY_MIB, files=FILES, packs=PACKS, flags=FLOAT32) as server:
        bench = CastBench(server)
        return {
            **{kind: bench.bytes_of(kind) for kind in (*OUTPUTS, "CONTROL_NET")},
            "sampled_latent_relative_distance": bench.distance(),
            # Without kernels a step takes no time that says anything.
            **({} if args.fake_cuda else
               {"step": bench.step_times(args.turns, args.steps, args.size)}),
        }


class CastBench:
    """The measurements on one running server."""

    def __init__(self, server: Bench) -> None:
        self.server = server

    def bytes_of(self, kind: str) -> dict[str, object]:
        forget_everything(self.server.client)
        graph = Graph()
        model = _source(graph, kind)
        full = graph.add("CastLoad", model=model)
        before, rss_before = self.server.told(graph, full), self._status("VmRSS")
        self._forget_peak()
        cast = _add_cast(graph, model)
        graph.add("PreviewAny", source=cast[1])
        report = node_texts(self.server.run(graph))[cast.id]
        rss_after, rss_peak = self._status("VmRSS"), self._status("VmHWM")
        half = graph.add("CastLoad", model=cast)
        after = self.server.told(graph, half)
        return {
            "loaded_mib_float32": round(before["loaded"] / MIB, 3),
            "loaded_mib_bfloat16": round(after["loaded"] / MIB, 3),
            "loaded_ratio": round(after["loaded"] / before["loaded"], 5),
            "requested_ratio": round(after["requested"] / before["requested"], 5),
            "rss_growth_mib": _difference(rss_before, rss_after),
            "rss_peak_growth_mib": _difference(rss_before, rss_peak),
            "report": report.splitlines()[:4],
        }

    def distance(self) -> float:
        graph = Graph()
        checkpoint = _checkpoint(graph)
        exact = add_sampler(graph, checkpoint[0], checkpoint[1])
        rounded = add_sampler(graph, _add_cast(graph, checkpoint[0]), checkpoint[1])
        near = graph.add("CastNear", a=exact, b=rounded)
        return round(float(self.server.told(graph, near)["error"]), 5)

    def step_times(self, turns: int, steps: int, size: int) -> dict[str, object]:
        """Seconds a step of both models in turns, loaded before; on a CPU they say little."""
        forget_everything(self.server.client)
        found: dict[str, list[float]] = {"float32": [], "bfloat16": []}
        for turn in range(turns + 1):
            for kind in ("float32", "bfloat16") if turn % 2 else ("bfloat16", "float32"):
                self._step_s(kind, 1, size, 100 + turn)  # brings the model onto the device
                took = self._step_s(kind, steps, size, turn)
                if turn > 0:
                    found[kind].append(took)
        full, half = (statistics.median(found[kind]) for kind in ("float32", "bfloat16"))
        return {"size": size, "steps": steps, "turns": turns, "float32_s": round(full, 4),
                "bfloat16_s": round(half, 4), "bfloat16_of_float32": round(half / full, 4)}

    def _step_s(self, kind: str, steps: int, size: int, seed: int) -> float:
        graph = Graph()
        checkpoint = _checkpoint(graph)
        model = checkpoint[0] if kind == "float32" else _add_cast(graph, checkpoint[0])[0]
        latent = add_sampler(graph, model, checkpoint[1], seed=seed, size=size, steps=steps)
        graph.add("ProbeTensor", value=latent)
        return self.server.seconds(self.server.run(graph))[latent.id] / steps

    def _status(self, field: str) -> float | None:
        path = Path(f"/proc/{self.server.process.pid}/status")
        lines = path.read_text().splitlines() if path.exists() else []
        return next((int(line.split()[1]) / 1024 for line in lines
                     if line.startswith(f"{field}:")), None)

    def _forget_peak(self) -> None:
        """Let VmHWM start again at the present RSS (proc(5), clear_refs)."""
        path = Path(f"/proc/{self.server.process.pid}/clear_refs")
        if path.exists():
            path.write_text("5")


def _checkpoint(graph: Graph) -> Node:
    return add_checkpoint(graph, models.DEMO_CHECKPOINT)


def _source(graph: Graph, kind: str) -> Any:
    if kind == "CONTROL_NET":
        return add_controlnet(graph, models.DEMO_CONTROLNET)
    return _checkpoint(graph)[OUTPUTS[kind]]


def _add_cast(graph: Graph, model: Any) -> Node:
    return graph.add("HeadroomCastBF16", model=model, dtype="bfloat16", keep_float32="")


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(after - before, 1)


if __name__ == "__main__":
    alone()
