"""What ComfyUI's templates take on this machine's GPU, against the range that `dev.py fit` gives.

    python benchmarks/fit_on_gpu.py --comfyui PATH --gpu [--only NAME ...] [--cards GIB,GIB]
        [--flags WORDS] [--dry FOLDER]

Each template is run dry first, with room for everything and on each card. Then ComfyUI runs the
same prompt on the GPU, with the same files: real sizes, and zeros for weights, which take the time
and the memory of any others. A smaller card is made of this one by torch's limit of the process,
with another process holding the rest: so that much is free in addition to the server's CUDA
context. On a real card of that size the context would be part of it. `--dry` keeps the dry part in
a folder, so that it can be made on another machine, without `--gpu`.

The need is torch's highest count of allocated memory, what ComfyUI's dynamic VRAM held, and the
CUDA context: the driver's highest figure less what torch had reserved and not given out. The driver
is asked every 5 ms.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools import results
from tools.bench_run import alone
from tools.client import PromptFailed
from tools.device import MIB, TIMEOUT_S, Device
from tools.dry_server import DryServer
from tools.errors import NotHere
from tools.fit import CONTEXT_MIB, cards
from tools.fit_inputs import add_inputs
from tools.fit_prompt import ObjectInfo, without_noise_trees
from tools.fit_range import Unmodelled, largest_layer_mib
from tools.fit_ready import ready
from tools.fit_run import PLAIN, Fit, Trial
from tools.fit_steps import fewer_steps
from tools.lab import REAL_GPU_PACK, fake_cuda
from tools.server import ComfyServer
from tools.sparse_files import SparseFile, Weight, write_sparse
from tools.template_package import templates_of

NAME = "fit_on_gpu"
TEMPLATES = (
    "sdxl_simple_example sdxlturbo_example sd3.5_simple_example flux_dev_checkpoint_example "
    "image_z_image_turbo image_qwen_image image_lens_t2i image_longcat_text_to_image "
    "image_pixeldit_t2i ltxv_text_to_video video_wan2_2_5B_ti2v text_to_video_wan").split()
CAPABILITY, LAYOUT_COPIES, LOOK_S = "9.0", 1.0, 0.005
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", action="store_true", help="on this machine's own GPU")
    parser.add_argument("--only", nargs="+", default=TEMPLATES, metavar="NAME")
    parser.add_argument("--cards", type=cards, default="8,12", help="in GiB; default: 8,12")
    parser.add_argument("--flags", default="", help="ComfyUI's own flags, in one word")
    parser.add_argument("--dry", type=Path, help="where the dry part is kept")


def run(args: argparse.Namespace) -> Json:
    """Return a row for each template, and how many needs lie inside the range."""
    with tempfile.TemporaryDirectory(prefix="headroom-fit-on-gpu-") as base:
        folder = args.dry or Path(base) / "dry"
        folder.mkdir(parents=True, exist_ok=True)
        for name in args.only:
            if not (folder / f"{name}.json").exists():
                text = json.dumps(dry(args, Path(base) / name, name))
                (folder / f"{name}.json").write_text(text, encoding="utf-8")
        if not args.gpu:
            raise NotHere(f"the dry part is in {folder}; the rest needs a real NVIDIA GPU (--gpu)")
        cases = {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
                 for name in args.only}
        rows = real(args, Path(base) / "real", cases)
        return summary({name: {"commit": results.commit(), **row} for name, row in rows.items()})


def merged(recorded: Json, found: Json) -> Json:
    """The rows of an earlier run, and in their place those that were measured again."""
    return summary({**recorded["rows"], **found["rows"]})


# -- without a GPU ----------------------------------------------------------------------------


def dry(args: argparse.Namespace, base: Path, name: str) -> Json:
    """The prompt, its files, and what a dry run says of them."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    data = templates_of(Path(args.comfyui))[name]
    base.mkdir(parents=True)
    file = base / f"{name}.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    add_inputs(data, None, base / "input")
    settings = {"context_mib": CONTEXT_MIB, "capability": CAPABILITY,
                "cudnn_layout_copies": LAYOUT_COPIES}
    with DryServer(Path(args.comfyui), base, settings=settings, flags=args.flags.split(),
                   env={"HEADROOM_DRY_RAM_MIB": str(128 * 1024)}) as server:
        info = server.client.get_json("/object_info")
        prompt, found, _ = ready(file, data, {}, server.client, ObjectInfo(info), server.shapes)
        server.add_models(found.files)
        prompt = without_noise_trees(fewer_steps(prompt))
        work = Fit(server, prompt, info, guard=False, context_mib=CONTEXT_MIB, show=False,
                   unmodelled=Unmodelled(LAYOUT_COPIES, largest_layer_mib(found.files)))
        trials = {"room": work.look_at_room(), **{
            f"{gib:g}": work.trial(gib, PLAIN, prompt)[0] for gib in args.cards}}
    return {"data": data, "prompt": prompt,
            "files": {place: packed(content) for place, content in found.files.items()},
            "trials": {card: told(trial) for card, trial in trials.items()}}


def told(trial: Trial) -> Json:
    low, high = trial.range_mib
    return {"verdict": trial.verdict.text, "word": trial.verdict.word,
            "low_mib": low, "high_mib": high, "peak_mib": trial.peak_mib,
            "nodes": [dataclasses.asdict(node) for node in trial.nodes]}


def packed(content: SparseFile) -> Json:
    return {"weights": {name: [weight.dtype, list(weight.shape)]
                        for name, weight in content.weights.items()},
            "values": {name: value.hex() for name, value in content.values.items()},
            "metadata": dict(content.metadata)}


def unpacked(data: Mapping[str, Any]) -> SparseFile:
    return SparseFile(
        {name: Weight(dtype, tuple(shape)) for name, (dtype, shape) in data["weights"].items()},
        {name: bytes.fromhex(value) for name, value in data["values"].items()}, data["metadata"])


# -- on the GPU -------------------------------------------------------------------------------


class Highest:
    """The most of the card that was in use while this was open, by the driver."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml, self._card = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        self._end = threading.Event()
        self.used_bytes = 0

    def look(self) -> int:
        return int(self._nvml.nvmlDeviceGetMemoryInfo(self._card).used)

    def __enter__(self) -> Highest:
        self.used_bytes = self.look()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(LOOK_S):
            self.used_bytes = max(self.used_bytes, self.look())


def real(args: argparse.Namespace, base: Path, cases: Mapping[str, Json]) -> dict[str, Json]:
    """Every case on one server, on an empty card each time."""
    before = Highest().look()
    for case in cases.values():
        add_inputs(case["data"], None, base / "input")
    rows: dict[str, Json] = {}
    with ComfyServer(Path(args.comfyui), base, gpu=True, packs=[REAL_GPU_PACK],
                     args=args.flags.split()) as server:
        device = Device(server.client(), gpu=True, room_mib=1 << 30)
        for name, case in cases.items():
            for place, content in case["files"].items():
                write_sparse(base / "models" / place, unpacked(content))
            rows[name] = {}
            for card in ("room", *(f"{gib:g}" for gib in args.cards)):
                rows[name][card] = row = {
                    **{key: case["trials"][card][key]
                       for key in ("verdict", "low_mib", "high_mib", "peak_mib")},
                    **attempted(device, case["prompt"], card, before)}
                print(json.dumps({name: {card: row}}), file=sys.stderr, flush=True)
            for place in case["files"]:
                (base / "models" / place).unlink()
    return rows


def attempted(device: Device, prompt: Json, card: str, before: int) -> Json:
    """One run on an empty card of that size: its end, its memory in MiB, and its seconds."""
    device.empty()
    highest = Highest()
    own = highest.look() - before
    if card != "room":
        device.set_capacity(float(card) * 1024)
    others = highest.look() - own
    device.reset_peaks()
    started, end = time.monotonic(), "completes"
    with highest:
        try:
            device.client.run(prompt, timeout=TIMEOUT_S)
        except PromptFailed as error:
            end = ("fails in " if error.out_of_memory else "stopped in ") + error.node_type
            if not error.out_of_memory:
                end += f": {error.exception_message.strip()[:200]}"
    seconds = time.monotonic() - started
    ledger = device.ledger()
    slack = ledger.peak_reserved_bytes - ledger.peak_allocated_bytes
    device.empty()
    left = highest.look() - before - device.collect().reserved_bytes
    used = highest.used_bytes - others
    return {"end": end, "seconds": round(seconds, 1), "used_mib": round(used / MIB, 1),
            "need_mib": round((used - slack) / MIB, 1),
            "allocated_mib": round(ledger.peak_allocated_bytes / MIB, 1),
            "reserved_mib": round(ledger.peak_reserved_bytes / MIB, 1),
            "context_mib": round(left / MIB, 1)}


def summary(rows: Mapping[str, Json]) -> Json:
    """How many needs lie in their range, and on how many cards both ways end alike."""
    whole = [row["room"] for row in rows.values() if row["room"]["end"] == "completes"]
    small = [row for one in rows.values() for card, row in one.items()
             if card not in ("room", "commit")]
    alike = [row for row in small
             if row["verdict"].startswith("fails") == row["end"].startswith("fails")]
    return {
        "templates": len(rows), "completed": len(whole),
        "inside": sum(row["low_mib"] <= row["need_mib"] <= row["high_mib"] for row in whole),
        "worst_under_percent": round(min(
            (100 * (row["high_mib"] / row["need_mib"] - 1) for row in whole), default=0.0), 1),
        "worst_over_percent": round(max(
            (100 * (row["low_mib"] / row["need_mib"] - 1) for row in whole), default=0.0), 1),
        "width_percent": round(statistics.median(
            [100 * (row["high_mib"] / row["low_mib"] - 1) for row in whole] or [0.0]), 1),
        "cards": len(small), "alike": len(alike), "rows": dict(rows),
    }


if __name__ == "__main__":
    alone()
