"""Whether sorting sizes saves memory: random lists of sizes on PyTorch's own allocators.

    python benchmarks/size_orders.py --comfyui PATH

Half of the lists mix sides from 512 to 1,408 pixels, half are shapes of about one megapixel, as
SDXL's; each is sampled (one step) and decoded by an SD1.5-class model whose weights stay on the
GPU: in the order given, largest first, smallest first, and largest first in buckets of 128. On the
fake CUDA driver (lab/fakecuda), native, with expandable segments, and with cudaMallocAsync, whose
pool is a model. Counted for each list against its given order: the most that was taken from the
driver, and whether it completes (and with how many retries) on a device with 6 % more than its
tensors need.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from on_path import ROOT

from tools import models
from tools.bench_run import alone
from tools.lab import FAKE_CUDA_LAUNCHER, driver_ledger
from tools.load_file import load_file
from tools.results import FAKE

NAME = "size_orders"
DEVICE = FAKE
ALLOCATORS = ("native", "expandable", "async")
GIVEN, INSIDE = "as given", "--inside"
SPARE = 1.06
ROOM_MIB, MIB = 16384, 2**20
WAYS: dict[str, dict[str, Any]] = {
    "largest first": {},
    "smallest first": {"order": "smallest first"},
    "buckets of 128": {"fit": "round up to bucket", "bucket": 128},
}
Json = dict[str, Any]
Sizes = list[tuple[int, int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lists", type=int, default=50)
    parser.add_argument("--sizes", type=int, default=6, help="in a list")
    parser.add_argument("--allocators", nargs="+", choices=ALLOCATORS, default=ALLOCATORS)


def run(args: argparse.Namespace) -> Json:
    """Return for each allocator and way medians against the order given; no time is measured."""
    file = models.models_folder() / models.TEST_CHECKPOINT
    models.make_models(models.models_folder(), [models.TEST_CHECKPOINT], comfyui=args.comfyui)
    given = random_lists(args.lists, args.sizes)
    asked = {GIVEN: given} | {way: [_sorted(one, way) for one in given] for way in WAYS}
    flat = [sizes for lists in asked.values() for sizes in lists]
    result: Json = {"lists": len(given), "sizes": args.sizes}
    for allocator in args.allocators:
        found = iter(_measured(allocator, args.comfyui, file, flat))
        figures = {way: [next(found) for _ in lists] for way, lists in asked.items()}
        result[allocator] = {way: against(each, figures[GIVEN]) for way, each in figures.items()}
    return result


def random_lists(count: int, length: int) -> list[Sizes]:
    """Lists of sizes, the same for the same numbers."""
    chance = random.Random(1)
    sides = range(512, 1409, 64)
    one_area = [(w, h) for w in sides for h in sides if 0.9 <= w * h / 2**20 <= 1.02]
    mixed = [(w, h) for w in sides for h in sides]
    return [[chance.choice((mixed, one_area)[number % 2]) for _ in range(length)]
            for number in range(count)]


def _sorted(sizes: Sizes, way: str) -> Sizes:
    headroom = load_file("headroom", ROOT / "headroom" / "__init__.py")
    text = "\n".join(f"{width}x{height}" for width, height in sizes)
    placed = headroom.sort_work(text, **WAYS[way]).sizes.placed
    return [(item.size.width, item.size.height) for item in placed]


def _measured(allocator: str, comfyui: str, file: Path, lists: list[Sizes]) -> list[Json]:
    """What each list took, one after the other in one process."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--capacity-mib", "16384", "--allocator", allocator,
                 "--ledger", str(Path(folder) / "ledger"), __file__, "--", INSIDE, comfyui,
                 str(file)]
        done = subprocess.run(
            [sys.executable, str(FAKE_CUDA_LAUNCHER), *words], input=json.dumps(lists),
            capture_output=True, text=True, check=False, cwd=folder,
        )
    if done.returncode != 0:
        raise RuntimeError(f"The measurement failed:\n{done.stderr[-2000:]}")
    answer: list[Json] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def against(found: list[Json], given: list[Json]) -> Json:
    """Return the figures of one way over all lists, and their ratio to the order given."""
    ratios = [one["peak_driver_bytes"] / other["peak_driver_bytes"]
              for one, other in zip(found, given, strict=True)]
    tight = [one["tight_retries"] for one in found if one["tight_completes"]]
    return {
        "peak_driver_bytes_of_given": round(statistics.median(ratios), 3),
        "worst_peak_of_given": round(max(ratios), 3),
        "median_peak_mib": round(statistics.median(
            one["peak_driver_bytes"] for one in found) / 2**20, 1),
        "tight_completed": len(tight), "tight_retries": sum(tight),
    }


class Work:
    """The loaded model, and what a list of sizes does with it, inside the fake driver's process."""

    def __init__(self, checkpoint: str) -> None:
        import comfy.sd

        self.driver = driver_ledger(Path(os.environ["FAKECUDA_LEDGER"]))
        self.model, clip, self.vae = comfy.sd.load_checkpoint_guess_config(checkpoint)[:3]
        self.words = clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))
        self.one(512, 512)  # what is made only once is made before anything is counted

    def one(self, width: int, height: int) -> None:
        """A step of sampling and a decode."""
        import comfy.sample
        import torch

        latent = torch.zeros([1, 4, height // 8, width // 8])
        noise = comfy.sample.prepare_noise(latent, 1)
        found = comfy.sample.sample(
            self.model, noise, 1, 7.0, "euler", "normal", self.words, self.words, latent,
            disable_pbar=True,
        )
        self.vae.decode(found)

    def figures(self, sizes: list[list[int]]) -> Json:
        """What the list takes with room, and whether it completes with little."""
        import torch

        before = self.start(ROOM_MIB * MIB)
        retries = self.run(sizes)
        assert retries is not None, "out of memory on a device with room"
        peak = self.driver.device().peak_used_bytes
        needed = before.used_bytes + torch.cuda.max_memory_allocated() - self.allocated
        self.start(int(needed * SPARE))
        tight = self.run(sizes)
        return {"peak_driver_bytes": peak, "tight_completes": tight is not None,
                "tight_retries": tight}

    def start(self, capacity_bytes: int) -> Any:
        import comfy.model_management
        import torch

        comfy.model_management.soft_empty_cache(True)
        torch.cuda.empty_cache()
        self.driver.set(capacity_bytes=capacity_bytes)
        torch.cuda.reset_peak_memory_stats()
        self.driver.reset_peaks()
        self.allocated = torch.cuda.memory_allocated()
        return self.driver.device()

    def run(self, sizes: list[list[int]]) -> int | None:
        """How often the allocator gave its cache back; None when memory ran out."""
        import torch

        def given_back() -> int:
            return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))

        before = given_back()
        try:
            for size in sizes:
                self.one(*size)
        except torch.OutOfMemoryError:
            return None
        return given_back() - before


def inside(comfyui: str, checkpoint: str) -> None:
    """Read lists of `[width, height]` as JSON on stdin, and print what each took.

    Each takes an empty cache and a device with room; then it is tried on one with SPARE times the
    room that its tensors need.
    """
    sys.path.remove(str(ROOT))  # its `nodes` would hide ComfyUI's
    sys.path[0] = comfyui
    sys.argv = ["main.py", "--highvram"]  # the weights stay, as in the published case
    import comfy.options

    comfy.options.enable_args_parsing()
    import torch

    asked = json.loads(sys.stdin.read())
    with torch.inference_mode():
        work = Work(checkpoint)
        print(json.dumps([work.figures(sizes) for sizes in asked]))


if __name__ == "__main__":
    if INSIDE in sys.argv:
        inside(*sys.argv[2:])
    else:
        alone()
