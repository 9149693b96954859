"""Nodes that allocate memory, keep it, and free it."""

import time
from pathlib import Path

import comfy.model_management as mm
import folder_paths
import torch
from comfy.model_patcher import ModelPatcher
from comfy.patcher_extension import CallbacksMP

from .waiting import Timed

KEPT = []
MIB = ("INT", {"default": 64, "max": 100000})


class TimedMemory(Timed):
    """Takes `mib` of memory on `device`, and keeps it or gives it back before it ends."""

    INPUTS = {**Timed.INPUTS, "mib": MIB, "keep": ("BOOLEAN", {"default": False})}
    OPTIONAL = {**Timed.OPTIONAL, "device": ("STRING", {"default": ""})}

    def run(self, seconds, salt, mib, keep, value=None, device=""):
        began = time.time()
        device = device or mm.get_torch_device()
        block = torch.ones(mib * 2**20, dtype=torch.uint8, device=device)
        time.sleep(seconds)
        if keep:
            KEPT.append(block)
        else:
            del block
            mm.soft_empty_cache()
        return self.told(began, value)


class TimedKeep(Timed):
    """Keeps a value, as packs do that have a cache of their own."""

    def run(self, seconds, salt, value=None):
        KEPT.append(value)
        return self.told(time.time(), value)


class TimedGrow(Timed):
    """Takes 200 MiB of RAM a second up to `mib`, and stops when it is interrupted."""

    INPUTS = {**Timed.INPUTS, "mib": MIB}

    def run(self, seconds, salt, mib, value=None):
        began, blocks = time.time(), []
        for _ in range(mib // 10):
            mm.throw_exception_if_processing_interrupted()
            blocks.append(torch.ones(10 * 2**20, dtype=torch.uint8))
            time.sleep(0.05)
        return self.told(began, value)


class TimedPeak(Timed):
    """Takes memory, gives it back, and asks torch for its own peak."""

    INPUTS = {**Timed.INPUTS, "mib": MIB, "when": (["before", "after"],)}

    def run(self, seconds, salt, mib, when, value=None):
        if when == "before":
            torch.cuda.reset_peak_memory_stats()
        block = torch.ones(mib * 2**20, dtype=torch.uint8, device=mm.get_torch_device())
        time.sleep(seconds)
        del block
        mm.soft_empty_cache()
        peak_bytes = torch.cuda.max_memory_allocated()
        if when == "after":
            torch.cuda.reset_peak_memory_stats()
        return self.told(time.time(), value, peak_bytes=peak_bytes)


class TimedForget(Timed):
    """Drops what TimedMemory kept."""

    def run(self, seconds, salt, value=None):
        began = time.time()
        KEPT.clear()
        time.sleep(seconds)
        mm.soft_empty_cache()
        return self.told(began, value)


class TimedDrop(Timed):
    """Drops what TimedMemory kept, and leaves it in the allocator's cache."""

    def run(self, seconds, salt, value=None):
        KEPT.clear()
        return self.told(time.time(), value)


class TimedSlowModel(Timed):
    """Loads a model whose unloading takes `seconds`, and longer while a test holds it.

    It waits while there is a file `hold` in the output folder, and says so by `held` beside it.
    """

    DETACHED = []

    def run(self, seconds, salt, value=None):
        linear = torch.nn.Linear(256, 256)
        cpu = torch.device("cpu")
        patcher = ModelPatcher(linear, load_device=mm.get_torch_device(), offload_device=cpu)

        def detaching(*_):
            began = time.time()
            time.sleep(seconds)
            output = Path(folder_paths.get_output_directory())
            while (output / "hold").exists():
                (output / "held").touch()
                time.sleep(0.01)
            self.DETACHED.append((began, time.time()))

        patcher.add_callback(CallbacksMP.ON_DETACH, detaching)
        mm.load_models_gpu([patcher])
        KEPT.append(patcher)
        return self.told(time.time(), value)


class TimedModel(Timed):
    """Loads a model of `mib` on `device` and hands it on."""

    INPUTS = {**Timed.INPUTS, "mib": MIB, "device": ("STRING", {"default": ""})}

    def run(self, seconds, salt, mib, device, value=None):
        weights = torch.nn.Linear(1024, mib * 256, bias=False)
        patcher = ModelPatcher(weights, load_device=torch.device(device or mm.get_torch_device()),
                               offload_device=torch.device("cpu"))
        mm.load_models_gpu([patcher])
        KEPT.append(patcher)
        return self.told(time.time(), patcher)


class TimedDetached(Timed):
    """When slow models were unloaded."""

    def run(self, seconds, salt, value=None):
        return self.told(time.time(), value, detached=list(TimedSlowModel.DETACHED))
