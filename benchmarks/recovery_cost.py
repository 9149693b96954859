"""What a recovery costs, in counters that do not depend on the machine: two prompts at each
capacity.

    python benchmarks/recovery_cost.py --comfyui PATH --fake-cuda [--classes SDXL] [--percent 60]

SD1.5, SDXL, Flux and Wan at their published sizes (files without weights) on the fake CUDA
driver, with ComfyUI's defaults. What a class needs is the smallest device on which a stock prompt
completes, to 8 %. At shares of it, each on a server that was started on such a device: two prompts
in a row with OOM Guard on model, text encoder and VAE, then two of stock, then the best setting
that a user could find by hand. Each begins on an empty device, and OOM Guard without lessons.
What runs on the CPU (a text encoder) computes nothing and copies nothing to be counted.
The pager asks every two seconds what is free: the moment changes the bytes (for Wan by a tenth).

`failed_calls` are those that OOM Guard reports or that ended a prompt (not those that ComfyUI
answers by itself; `refused` counts refusals of the driver), `futile` those that were repeated after
a step and failed again. Bytes are those copied to the device, launches those of kernels and library
calls. By hand means: the batch in as few parts as complete, each a prompt of its own, with the VAE
whole, or else in tiles of 512, or else of 256 pixels, and the text encoder on the CPU where it
fails on the GPU; figures of its second prompt, times the parts. (Smaller parts and tiles only copy
and launch more. `--lowvram` does nothing under dynamic VRAM.) Where nothing completes by hand,
`last_by_hand` is the last setting that failed, and where.

All of it takes hours. A class and a share at a time (`--write`, with `--need-mib` from the second
share on) is recorded beside those that were recorded before.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
from recovery_prompts import AS_IT_COMES, KINDS, Setting, prompt

from tools.bench_device import add_fake_cuda, narrowed
from tools.bench_run import alone
from tools.client import PromptFailed, failed
from tools.dry_server import DryServer
from tools.errors import DevError, NotHere
from tools.public_models import sparse_files
from tools.results import commit
from tools.sparse_files import SparseFile

NAME = "recovery_cost"
ROOM_MIB = 64 * 1024
TIMEOUT_S = 900.0
MIB = 1 << 20
STEPS = 2
TILES = (512, 256)
LEAST, FINENESS = 40, 1.08
Json = dict[str, Any]
Server = Callable[[int], AbstractContextManager[Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_fake_cuda(parser)
    parser.add_argument("--classes", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--percent", nargs="+", type=int, default=[100, 80, 60, 40, 25])
    parser.add_argument("--batch", type=int, help="default: that of the class")
    parser.add_argument("--need-mib", type=int, help="of one class, where it is known already")
    parser.add_argument("--divide", type=int, default=1, help="each side of the picture by this")


def run(args: argparse.Namespace) -> Json:
    """Return for each class and share of its need what each way copied, launched and failed."""
    if not args.fake_cuda:
        raise NotHere("it counts what the fake CUDA driver sees (--fake-cuda)")
    try:
        classes = {name: Cost(name, args).measured() for name in args.classes}
    except DevError as error:
        raise NotHere(str(error)) from error
    return {"steps": STEPS, "dynamic_vram": True, "classes": classes}


def merged(recorded: Json, found: Json) -> Json:
    """`found`, and those recorded shares of its classes and others that were not measured again.

    A class keeps its shares while need, batch and picture are the same.
    """
    classes = dict(recorded["classes"])
    for name, new in found["classes"].items():
        old = classes.get(name, {})
        alike = all(old.get(key) == new[key] for key in ("need_mib", "batch", "picture"))
        shares = {**old["shares"], **new["shares"]} if alike else new["shares"]
        classes[name] = {**new, "shares": dict(
            sorted(shares.items(), key=lambda share: -int(share[1]["mib"])))}
    return {**found, "classes": classes}


class Cost:
    """The measurements of one class."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name, self.kind, self.args = name, KINDS[name], args
        self.tree = Path(args.comfyui)
        width, height, frames = self.kind.picture
        self.picture = (width // args.divide, height // args.divide, frames)
        self.batch = args.batch or self.kind.batch
        self.seed = self.limit = 0
        self.files: Mapping[str, SparseFile] = {}

    def measured(self) -> Json:
        with tempfile.TemporaryDirectory() as folder:
            return self.on(lambda mib: self.server(mib, Path(folder)))

    @contextmanager
    def server(self, mib: int, folder: Path) -> Iterator[DryServer]:
        """A server on a device of so many MiB: the pager asks once, at its start, how many."""
        with DryServer(self.tree, Path(tempfile.mkdtemp(dir=folder)), mib,
                       env={"HEADROOM_DRY_ALL_TILES": "1"}) as dry:
            self.files = self.files or sparse_files(self.kind.files, dry.shapes)
            dry.add_models(self.files)
            yield dry

    def on(self, server: Server) -> Json:
        with server(ROOM_MIB) as dry:
            room = [self.one(dry) for _ in range(2)]
        need = self.args.need_mib or self.need(server, room[0]["peak_mib"])
        found: Json = {"batch": self.batch, "picture": list(self.picture), "need_mib": need,
                       "room": room, "shares": {}}
        for percent in self.args.percent:
            mib = round(need * percent / 100)
            with server(mib) as dry:
                share = found["shares"][f"{percent} %"] = {
                    "commit": commit(), **self.share(dry, mib)}
            print(json.dumps({"class": self.name, "percent": percent, **share}),
                  file=sys.stderr, flush=True)
        return found

    def need(self, server: Server, peak_mib: int) -> int:
        """The smallest device in MiB on which a stock prompt completes, to 8 %."""
        def completes(mib: int) -> bool:
            with server(mib) as dry:
                dry.empty(mib)
                return bool(self.one(dry)["completed"])

        return narrowed(completes, peak_mib // LEAST, peak_mib + peak_mib // 8,
                        near=lambda low, high: high <= low * FINENESS,
                        middle=lambda low, high: round((low * high) ** 0.5))

    def share(self, dry: DryServer, mib: int) -> Json:
        """What two guarded prompts, two of stock and the best by hand take on such a device."""
        self.limit += 1  # lessons are kept for equal options
        options = {"prefer": "same bits", "max_attempts": 8 + self.limit}
        found: Json = {"mib": mib, "guarded": self.twice(dry, mib, options),
                       "stock": self.twice(dry, mib, None)}
        by_hand = self.by_hand(dry, mib)
        best = found["by_hand"] = by_hand if by_hand["completed"] else None
        if best is None:
            found["last_by_hand"] = by_hand
        last = found["guarded"][-1]
        if best is not None and last["completed"]:
            found["of_by_hand"] = {key: round(last[key] / max(best[key], 1), 3)
                                   for key in ("copied_mib", "launches")}
        return found

    def twice(self, dry: DryServer, mib: int, options: Json | None) -> list[Json]:
        dry.empty(mib)
        found = [self.one(dry, guard=options)]
        if found[0]["completed"] or options is not None:  # stock learns nothing from a failure
            found.append(self.one(dry, guard=options))
        return found

    def by_hand(self, dry: DryServer, mib: int) -> Json:
        """The setting with as few parts of the batch as complete, in the largest tiles that do.

        Or, where there is none, the one that was tried last, with where it failed.
        """
        found: Json = {}
        pending: list[Setting] = [AS_IT_COMES]
        while pending:
            setting = pending.pop()
            dry.empty(mib)
            found = self.one(dry, setting)
            found = self.one(dry, setting) if found["completed"] else found
            found = {**found, "parts": setting.parts, "tile": setting.tile,
                     "encoder": setting.encoder}
            if found["completed"]:
                return {**found, "copied_mib": round(found["copied_mib"] * setting.parts, 1),
                        "launches": found["launches"] * setting.parts}
            pending += self.less_than(setting, str(found["failed_in"]))
        return found

    def less_than(self, setting: Setting, failed_in: str) -> list[Setting]:
        """The next setting to try by hand after one that failed there; empty at the end."""
        if failed_in == "CLIPTextEncode" and setting.encoder == "default":
            return [replace(setting, encoder="cpu")]
        smaller = [tile for tile in TILES if tile < (setting.tile or TILES[0] + 1)]
        if failed_in.startswith("VAEDecode") and smaller:
            return [replace(setting, tile=smaller[0])]
        parts = setting.parts * 2
        return [replace(setting, parts=parts, tile=None)] if parts <= self.batch else []

    def one(
        self, dry: DryServer, setting: Setting = AS_IT_COMES, guard: Json | None = None,
    ) -> Json:
        """The counters of one run of this class's prompt."""
        self.seed += 1
        before, failed_in, why = dry.driver.device(), None, {}
        prompt_id = dry.client.queue(prompt(
            self.kind, self.picture, self.batch, STEPS, self.seed, setting, guard))
        entry = dry.client.wait(prompt_id, TIMEOUT_S)
        if failed(entry):
            error = PromptFailed(entry)
            if not error.out_of_memory:
                raise error
            failed_in, why = error.node_type, {"error": error.exception_message.strip()[:1000]}
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
            "steps": [one["action"] for one in tries], **why,
        }


if __name__ == "__main__":
    alone()
