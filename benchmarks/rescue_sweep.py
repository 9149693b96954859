"""Fail one allocation of a whole prompt after the other, with no guard in it and rescue on.

    python benchmarks/rescue_sweep.py --comfyui PATH [--stride N ...] [--classes NAME ...]
        [--minutes N] [--state FILE]

On the simulated GPU the k-th allocation of the prompt fails once, for one k in `--stride` (13; 1
takes all of them, and hours): in loading a model, in the text encoder, in the noise schedule before
the sampling, in the sampler, in the decoder. SD1.5 class with a LoRA and a ControlNet; DiT classes:
a tiny SD3 from its text encoder to the picture, and a tiny Wan sampled through a guider.
Every prompt must end in a success with the pixels (the latents) of the run in which nothing failed,
and in the rerun every node that had finished must come from ComfyUI's cache. Where ComfyUI
itself goes on without a part of a LoRA or ControlNet, the record must say so.
`--state` keeps what was tried, so that the same command goes on where `--minutes` ended it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Device, served
from tools.bench_run import alone
from tools.graph import Graph
from tools.rescued import Lives, live, picture, saved, transformer, video

NAME = "rescue_sweep"
CAPACITY_MIB = 2048
FILES = (models.TEST_CHECKPOINT, models.TEST_LORA, models.TEST_CONTROLNET)
PACKS = ["headroom_oom_probe", "headroom_small_encoders"]
PARTS: dict[str, Callable[[], Graph]] = {
    "SD1.5 with LoRA and ControlNet": lambda: picture(extras=True),
    "SD3": transformer,
    "Wan through a guider": video,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--classes", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--stride", type=int, nargs="+", default=[13],
                        help="take every N-th allocation; one N, or one for each class")
    parser.add_argument("--minutes", type=float, default=600, help="begin nothing after so many")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep what was tried there")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return for each class how many allocations failed in turn, where, and what went wrong."""
    with served(args, CAPACITY_MIB, files=FILES, packs=PACKS) as gpu:
        return run_on(gpu, args, args.classes)


def run_on(gpu: Device, args: argparse.Namespace, names: Iterable[str] = PARTS) -> dict[str, Any]:
    """The same on a server that runs, for the classes of these names."""
    names = list(names)
    strides = args.stride * (len(names) if len(args.stride) == 1 else 1)
    wanted = list(zip(names, strides, strict=True))
    until, tried = time.monotonic() + args.minutes * 60, Tried(args.state)
    parts = {name: _swept(name, gpu, stride, tried, until) for name, stride in wanted}
    return {
        "parts": parts,
        "allocations_failed": sum(part["tried"] for part in parts.values()),
        "rescued": sum(part["rescued"] for part in parts.values()),
        "problems": [problem for part in parts.values() for problem in part["problems"]],
    }


class Ending(NamedTuple):
    """How a prompt ended in which one allocation failed, and what was wrong with that."""

    text: str
    wrong: str
    seconds: float


class Tried:
    """What became of the allocations that failed, by class and number; kept in a file, if any."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._endings: dict[tuple[str, int], Ending] = {}
        if file is not None:
            with suppress(FileNotFoundError):
                for line in file.read_text(encoding="utf-8").splitlines():
                    name, at, *rest = json.loads(line)
                    self._endings[name, at] = Ending(*rest)

    def get(self, name: str, at: int) -> Ending | None:
        return self._endings.get((name, at))

    def add(self, name: str, at: int, ending: Ending) -> None:
        self._endings[name, at] = ending
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                print(json.dumps([name, at, *ending]), file=file)


def _swept(name: str, gpu: Device, stride: int, tried: Tried, until: float) -> dict[str, Any]:
    prompt = PARTS[name]().prompt
    _arm(gpu, 10**9)
    wanted = _results(gpu.client, live(gpu.client, prompt).first)
    total = _fault(gpu)["seen"]
    found: dict[int, Ending] = {}
    for at in range(1, total + 1, stride):
        ending = tried.get(name, at)
        if ending is None:
            if time.monotonic() > until:
                continue
            ending = _ending(gpu, prompt, at, wanted)
            tried.add(name, at, ending)
            if ending.wrong:
                print(f"{name}, allocation {at}: {ending.wrong}", file=sys.stderr, flush=True)
        found[at] = ending
    ended = Counter(ending.text for ending in found.values())
    alone = ended["survived without"] + ended["went on without a part"]
    return {
        "allocations": total, "stride": stride, "tried": len(found),
        "ended": dict(sorted(ended.items())), "rescued": len(found) - alone,
        "problems": [f"{name}, allocation {at} of {total}: {ending.wrong}"
                     for at, ending in found.items() if ending.wrong],
        "seconds": round(sum(ending.seconds for ending in found.values()), 1),
    }


def _ending(gpu: Device, prompt: dict[str, Any], at: int, wanted: list[str]) -> Ending:
    started = time.monotonic()
    _arm(gpu, at)
    lives = live(gpu.client, prompt)
    failed = _fault(gpu)["failed"]
    gpu.post("fault")
    record = gpu.client.get_json(f"/headroom/runs/{lives.first_id}")
    lacks = lives.failed is None and any(entry["attempt"] == 0 for entry in record["oom"])
    wrong = _wrong(lives, _results(gpu.client, lives.last), wanted, failed, lacks)
    return Ending(_end_of(lives, lacks), wrong, round(time.monotonic() - started, 2))


def _arm(gpu: Device, at: int) -> None:
    """Fail that allocation of the next prompt, which finds nothing loaded and nothing cached."""
    gpu.post("fault")
    gpu.empty()
    gpu.post("fault", {"at": at})


def _fault(gpu: Device) -> dict[str, Any]:
    return dict(gpu.client.get_json("/simgpu/fault"))


def _end_of(lives: Lives, lacks: bool) -> str:
    if lives.failed is not None:
        return f"failed in {lives.failed}"
    return "went on without a part" if lacks else "survived without"


def _wrong(
    lives: Lives, results: list[str], wanted: list[str], failed: int, lacks: bool
) -> str:
    if failed != 1:
        return f"{failed} allocations failed"
    if not lives.succeeded:
        return f"ended in an error in {lives.failed}"
    if results != wanted and not lacks:
        return "the result differs"
    lost = lives.finished - lives.cached if lives.second is not None else set()
    return f"ran again although finished: {sorted(lost)}" if lost else ""


def _results(client: Any, entry: dict[str, Any]) -> list[str]:
    """What was saved, without the prompt that ComfyUI writes into the files."""
    return [hashlib.sha256(_content(name, data)).hexdigest()
            for name, data in saved(client, entry)]


def _content(name: str, data: bytes) -> bytes:
    if name.endswith(".latent"):
        import safetensors.torch

        return bytes(safetensors.torch.load(data)["latent_tensor"].float().numpy().tobytes())
    from PIL import Image

    return Image.open(io.BytesIO(data)).tobytes()


if __name__ == "__main__":
    alone()
