"""One SD1.5-class model that samples and decodes list after list of sizes: for `size_orders`.

    python lab/fakecuda/main.py --allocator native benchmarks/size_orders_run.py -- COMFYUI FILE

Reads a list of lists of `[width, height]` as JSON on stdin and prints a list of what each took, on
a device with room and with an empty cache before it; then whether it completes, and with how many
retries, on one with SPARE times the room that its tensors need. Run by `size_orders`.
"""

# ruff: noqa: E402, I001
import json
import os
import sys
from pathlib import Path
from typing import Any

from on_path import ROOT

COMFYUI, CHECKPOINT = sys.argv[1:3]
SPARE = 1.06
ROOM_MIB, MIB = 16384, 2**20
from tools.fake_cuda import driver_ledger

sys.path.remove(str(ROOT))  # its `nodes` would hide ComfyUI's
sys.path[0] = COMFYUI
sys.argv = ["main.py", "--highvram"]  # the weights stay, as in the published case
import comfy.options

comfy.options.enable_args_parsing()
import comfy.model_management
import comfy.sample
import comfy.sd
import torch

Json = dict[str, Any]


class Work:
    """The loaded model, and what a list of sizes does with it."""

    def __init__(self) -> None:
        self.driver = driver_ledger(Path(os.environ["FAKECUDA_LEDGER"]))
        self.model, clip, self.vae = comfy.sd.load_checkpoint_guess_config(CHECKPOINT)[:3]
        self.words = clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))
        self.one(512, 512)  # whatever is made once is there before anything is counted

    def one(self, width: int, height: int) -> None:
        """A step of sampling and a decode."""
        latent = torch.zeros([1, 4, height // 8, width // 8])
        noise = comfy.sample.prepare_noise(latent, 1)
        found = comfy.sample.sample(
            self.model, noise, 1, 7.0, "euler", "normal", self.words, self.words, latent,
            disable_pbar=True,
        )
        self.vae.decode(found)

    def figures(self, sizes: list[list[int]]) -> Json:
        """What the list takes with room, and whether it completes with little."""
        before = self.start(ROOM_MIB * MIB)
        retries = self.run(sizes)
        assert retries is not None, "out of memory on a device with room"
        after = self.driver.device()
        needed = before.used_bytes + torch.cuda.max_memory_allocated() - self.allocated
        with_room = {
            "peak_driver_bytes": after.peak_used_bytes,
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
            "driver_allocations": after.allocations - before.allocations,
            "left_unused_bytes": torch.cuda.memory_reserved() - torch.cuda.memory_allocated(),
        }
        before = self.start(int(needed * SPARE))
        tight = self.run(sizes)
        return {**with_room, "tight_completes": tight is not None, "tight_retries": tight,
                "tight_driver_allocations": self.driver.device().allocations - before.allocations}

    def start(self, capacity_bytes: int) -> Any:
        comfy.model_management.soft_empty_cache(True)
        torch.cuda.empty_cache()
        self.driver.set(capacity_bytes=capacity_bytes)
        torch.cuda.reset_peak_memory_stats()
        self.driver.reset_peaks()
        self.allocated = torch.cuda.memory_allocated()
        return self.driver.device()

    def run(self, sizes: list[list[int]]) -> int | None:
        """How often the allocator gave its cache back; None when memory ran out."""
        def given_back() -> int:
            return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))

        before = given_back()
        try:
            for size in sizes:
                self.one(*size)
        except torch.OutOfMemoryError:
            return None
        return given_back() - before


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    with torch.inference_mode():
        work = Work()
        print(json.dumps([work.figures(sizes) for sizes in asked]))
