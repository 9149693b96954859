"""What a recovery costs, in counters that no machine's noise touches: two prompts at each capacity.

    python benchmarks/recovery_cost.py --comfyui PATH --fake-cuda [--classes SDXL] [--percent 60]

SD1.5, SDXL, Flux and Wan at their published sizes (files that hold no weights) on the fake CUDA
driver, with ComfyUI's defaults. What a class needs is the smallest device on which a stock prompt
completes, to 8 %. At shares of it: two prompts in a row with OOM Guard on model, text encoder and
VAE, then two of stock, then the best setting that a user could find by hand. Each begins on an
empty device, and OOM Guard without lessons.

`failed_calls` are those of which OOM Guard tells or that ended a prompt (not those that ComfyUI
answers by itself; `refused` counts refusals of the driver), `futile` those that were repeated after
a step and failed again. Bytes are those copied to the device, launches those of kernels and library
calls. By hand means: the batch in as few parts as complete, each a prompt of its own, with the VAE
whole, or else in tiles of 512, or else of 256 pixels; figures of its second prompt, times the
parts. (Smaller parts and tiles only copy and launch more. `--lowvram` does nothing under dynamic
VRAM, and else moves the text encoder to the CPU, which copies nothing to be counted.)

All of it takes hours. A class and a share at a time (`--write`, with `--need-mib` from the second
share on) is recorded beside those that were recorded before.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
from recovery_pieces import command, merged

from devtools.bench_device import NO_DYNAMIC_VRAM, add_fake_cuda, narrowed
from devtools.bench_run import alone
from devtools.client import PromptFailed, failed
from devtools.dry_server import DryServer
from devtools.errors import DevError, NotHere
from devtools.graph import Graph, add_checkpoint, add_guard, add_ksampler
from devtools.public_models import sparse_files
from devtools.results import commit

NAME = "recovery_cost"
__all__ = ["Cost", "add_arguments", "merged", "run"]
REHEARSAL = ("--classes", "SD1.5", "--percent", "40", "--divide", "4", "--batch", "2")
ROOM_MIB = 64 * 1024
TIMEOUT_S = 900.0
MIB = 1 << 20
TILES = (None, 512, 256)
LEAST, FINENESS = 40, 1.08
Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A class of models: its files, its usual picture (width, height, frames) and the batch."""

    files: tuple[str, ...]
    picture: tuple[int, int, int]
    batch: int = 1
    cfg: float = 4.0


KINDS = {
    "SD1.5": Kind(("checkpoints/v1-5-pruned-emaonly-fp16.safetensors",), (512, 512, 1), 8),
    "SDXL": Kind(("checkpoints/sd_xl_base_1.0.safetensors",), (1024, 1024, 1), 4),
    "Flux": Kind(("checkpoints/flux1-dev-fp8.safetensors",), (1024, 1024, 1), 1, 1.0),
    "Wan": Kind(("diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors",
                 "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors",
                 "vae/wan_2.1_vae.safetensors"), (832, 480, 33)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_fake_cuda(parser)
    parser.add_argument("--classes", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--percent", nargs="+", type=int, default=[100, 80, 60, 40, 25])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, help="default: that of the class")
    parser.add_argument("--need-mib", type=int, help="of one class, where it is known already")
    parser.add_argument("--divide", type=int, default=1, help="each side of the picture by this")
    parser.add_argument("--prefer", nargs="+", default=["same bits"],
                        choices=["same bits", "speed"])
    parser.add_argument("--classic", action="store_true", help="without dynamic VRAM")


def run(args: argparse.Namespace) -> Json:
    """Return for each class and share of its need what each way copied, launched and failed."""
    if not args.fake_cuda:
        raise NotHere("it counts what the fake CUDA driver sees (--fake-cuda)")
    try:
        classes = {name: Cost(name, args).measured() for name in args.classes}
    except DevError as error:
        raise NotHere(str(error)) from error
    return {"steps": args.steps, "dynamic_vram": not args.classic, "classes": classes}


class Cost:
    """The measurements of one class."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name, self.kind, self.args = name, KINDS[name], args
        self.tree = Path(args.comfyui)
        width, height, frames = self.kind.picture
        self.picture = (width // args.divide, height // args.divide, frames)
        self.batch = args.batch or self.kind.batch
        self.seed = self.limit = 0

    def measured(self) -> Json:
        with tempfile.TemporaryDirectory() as folder:
            flags = [NO_DYNAMIC_VRAM] * self.args.classic
            dry = DryServer(self.tree, Path(folder), ROOM_MIB, flags=flags)
            with dry:
                dry.add_models(sparse_files(self.kind.files, dry.shapes))
                return self.on(dry)

    def on(self, dry: DryServer) -> Json:
        room = [self.one(dry, self.prompt(self.batch)) for _ in range(2)]
        need = self.args.need_mib or self.need(dry, room[0]["peak_mib"])
        found: Json = {"batch": self.batch, "picture": list(self.picture), "need_mib": need,
                       "room": room, "shares": {}}
        for percent in self.args.percent:
            share = found["shares"][f"{percent} %"] = {
                "commit": commit(), "command": command(NAME, self.args, self.name, percent),
                **self.share(dry, round(need * percent / 100))}
            print(json.dumps({"class": self.name, "percent": percent, **share}),
                  file=sys.stderr, flush=True)
        return found

    def need(self, dry: DryServer, peak_mib: int) -> int:
        """The smallest device in MiB on which a stock prompt completes, to 8 %."""
        def completes(mib: int) -> bool:
            dry.empty(mib)
            return bool(self.one(dry, self.prompt(self.batch))["completed"])

        return narrowed(completes, peak_mib // LEAST, peak_mib + peak_mib // 8,
                        near=lambda low, high: high <= low * FINENESS,
                        middle=lambda low, high: round((low * high) ** 0.5))

    def share(self, dry: DryServer, mib: int) -> Json:
        """What two guarded prompts, two of stock and the best by hand take on such a device."""
        found: Json = {"mib": mib}
        for prefer in self.args.prefer:
            self.limit += 1  # lessons are kept for equal options
            options = {"prefer": prefer, "max_attempts": 8 + self.limit}
            name = "guarded" if prefer == "same bits" else f"guarded, {prefer}"
            found[name] = self.twice(dry, mib, options)
        found["stock"] = self.twice(dry, mib, None)
        best = found["by_hand"] = self.by_hand(dry, mib)
        last = found["guarded"][-1]
        if best is not None and last["completed"]:
            found["of_by_hand"] = {key: round(last[key] / max(best[key], 1), 3)
                                   for key in ("copied_mib", "launches")}
        return found

    def twice(self, dry: DryServer, mib: int, options: Json | None) -> list[Json]:
        dry.empty(mib)
        found = [self.one(dry, self.prompt(self.batch, options=options))]
        if found[0]["completed"] or options is not None:  # stock learns nothing from a failure
            found.append(self.one(dry, self.prompt(self.batch, options=options)))
        return found

    def by_hand(self, dry: DryServer, mib: int) -> Json | None:
        """The setting with as few parts of the batch as complete, in the largest tiles that do."""
        parts = 1
        while parts <= self.batch:
            for tile in TILES:
                dry.empty(mib)
                one = {}
                for _ in range(2):
                    one = self.one(dry, self.prompt(self.batch // parts, tile=tile))
                    if not one["completed"]:
                        break
                if one["completed"]:
                    return {**one, "parts": parts, "tile": tile,
                            "copied_mib": round(one["copied_mib"] * parts, 1),
                            "launches": one["launches"] * parts}
                if not str(one["failed_in"]).startswith("VAEDecode"):
                    break
            parts *= 2
        return None

    def one(self, dry: DryServer, prompt: Json) -> Json:
        """The counters of one run."""
        before, failed_in = dry.driver.device(), None
        prompt_id = dry.client.queue(prompt)
        entry = dry.client.wait(prompt_id, TIMEOUT_S)
        if failed(entry):
            error = PromptFailed(entry)
            if not error.out_of_memory:
                raise error
            failed_in = error.node_type
        now = dry.driver.device()
        tries = dry.client.get_json(f"/headroom/runs/{prompt_id}").get("oom", [])
        nodes = dry.client.get_json(f"/dry/runs/{prompt_id}")
        return {
            "completed": failed_in is None, "failed_in": failed_in,
            "failed_calls": len(tries) + bool(failed_in),
            "futile": sum(1 for one in tries if not one["recovered"]),
            "copied_mib": round((now.htod_bytes - before.htod_bytes) / MIB, 1),
            "launches": now.launches - before.launches + now.library_calls - before.library_calls,
            "refused": now.refused - before.refused,
            "peak_mib": round(max((node["peak_bytes"] for node in nodes), default=0) / MIB),
            "steps": [one["action"] for one in tries],
        }

    def prompt(self, batch: int, tile: int | None = None, options: Json | None = None) -> Json:
        """Everything anew but the files: another text and seed in every prompt."""
        self.seed += 1
        graph = Graph()
        model, clip, vae = self.loaded(graph)
        if options is not None:
            model, clip, vae = (add_guard(graph, part, **options)[0]
                                for part in (model, clip, vae))
        words = [graph.add("CLIPTextEncode", clip=clip, text=f"{text} {self.seed}")
                 for text in ("a red cube on a table", "blurry")]
        width, height, frames = self.picture
        if frames > 1:
            latent = graph.add("EmptyHunyuanLatentVideo", width=width, height=height,
                               length=frames, batch_size=batch)
        else:
            latent = graph.add("EmptyLatentImage", width=width, height=height, batch_size=batch)
        sampled = add_ksampler(graph, model, *words, latent, seed=self.seed, cfg=self.kind.cfg,
                               steps=self.args.steps, scheduler="simple")
        tiles = {} if tile is None else {"tile_size": tile, "overlap": 64, "temporal_size": 64,
                                         "temporal_overlap": 8}
        image = graph.add("VAEDecodeTiled" if tiles else "VAEDecode", samples=sampled, vae=vae,
                          **tiles)
        graph.add("PreviewAny", source=image)
        return graph.prompt

    def loaded(self, graph: Graph) -> tuple[Any, Any, Any]:
        names = [file.rpartition("/")[2] for file in self.kind.files]
        if len(names) == 1:
            checkpoint = add_checkpoint(graph, names[0])
            return checkpoint[0], checkpoint[1], checkpoint[2]
        return (graph.add("UNETLoader", unet_name=names[0], weight_dtype="default")[0],
                graph.add("CLIPLoader", clip_name=names[1], type="wan")[0],
                graph.add("VAELoader", vae_name=names[2])[0])


if __name__ == "__main__":
    alone()
