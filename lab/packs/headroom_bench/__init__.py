"""Nodes for the benchmarks: models of any size, timed loads and plain copies, held tensors."""

import gc
import os
import runpy
import sys
import time
from pathlib import Path

import comfy.model_management as mm
import comfy.model_patcher
import comfy.ops
import comfy.utils
import folder_paths
import torch

from .classes import SHAPES, conditioning, latent, random_model, zero_model

SHARED = runpy.run_path(str(Path(__file__).resolve().parents[1] / "node.py"))
ANY, Bench = SHARED["ANY"], SHARED["Shown"]


def settled():
    """The time when the device has done all that it was asked to do."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class BenchModel(Bench):
    """A MODEL of plain layers with the weights of a file, new in each turn."""

    OUTPUT_NODE = False
    INPUTS = {"unet_name": ("STRING", {}), "turn": ("INT", {})}

    def run(self, unet_name, turn):
        path = folder_paths.get_full_path_or_raise("diffusion_models", unet_name)
        weights = comfy.utils.load_torch_file(path)
        linear = comfy.ops.disable_weight_init.Linear
        net = torch.nn.Module()
        for name in sorted(weights):
            weight = weights.pop(name)
            layer = linear(*reversed(weight.shape), bias=False, device="meta")
            layer.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
            net.add_module(name.partition(".")[0], layer)
        patcher = comfy.model_patcher.ModelPatcher(
            net, mm.get_torch_device(), mm.unet_offload_device()
        )
        return (patcher,)


class BenchLoad(Bench):
    """Bring a MODEL onto the device: seconds, and the bytes that are there then."""

    INPUTS, OPTIONAL = {"model": (ANY,)}, {"after": (ANY,)}

    def run(self, model, after=None):
        started = settled()
        mm.load_models_gpu([model])
        seconds = settled() - started
        return self.shown({"seconds": seconds, "bytes": model.loaded_size()}, model)


class BenchCopy(Bench):
    """What Offload Model does, in the plainest way, with the tensors of a file: seconds."""

    INPUTS = {"unet_name": ("STRING", {}), "turn": ("INT", {})}

    def run(self, unet_name, turn):
        mm.unload_all_models()
        gc.collect()
        mm.soft_empty_cache()
        path = folder_paths.get_full_path_or_raise("diffusion_models", unet_name)
        weights = comfy.utils.load_torch_file(path)
        moving = [weights.pop(name).clone() for name in sorted(weights)]
        device = mm.get_torch_device()
        self._moved(moving, device)
        self._moved(moving, "cpu")  # untimed: memory touched for the first time is slow
        answer = {"to_device_s": self._moved(moving, device),
                  "to_cpu_s": self._moved(moving, "cpu")}
        self._moved(moving, device)
        answer |= self._pinned(moving)
        return self.shown({**answer, **self._through_disk(moving, device)})

    def _moved(self, tensors, device):
        """Seconds; each takes the place of the one before, as the weights of a model do.

        What leaves the device is given back to the driver, as by Offload Model.
        """
        started = settled()
        for index, tensor in enumerate(tensors):
            tensors[index] = tensor.to(device)
        mm.soft_empty_cache()
        return settled() - started

    def _through_disk(self, tensors, device):
        """Each to the CPU, all to a file until it is on the disk, their RAM given back; and back.
        """
        copy = Path(folder_paths.get_temp_directory()) / "bench.bin"
        copy.parent.mkdir(parents=True, exist_ok=True)
        started = settled()
        moved_s = self._moved(tensors, "cpu")
        with copy.open("wb", buffering=0) as stream:
            for tensor in tensors:
                stream.write(memoryview(tensor.view(torch.uint8).numpy()).cast("B"))
            written_s = settled() - started - moved_s
            os.fsync(stream.fileno())
        shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
        synced_s = settled() - started - moved_s - written_s
        tensors.clear()
        del tensor
        to_disk_s = settled() - started
        with copy.open("rb", buffering=0) as stream:
            for shape, dtype in shapes:
                tensor = torch.empty(shape, dtype=dtype)
                stream.readinto(memoryview(tensor.view(torch.uint8).numpy()).cast("B"))
                tensors.append(tensor.to(device))
        from_disk_s = settled() - started - to_disk_s
        copy.unlink()
        return {"to_disk_s": to_disk_s, "write_s": written_s, "sync_s": synced_s,
                "from_disk_s": from_disk_s}

    def _pinned(self, there):
        """As fast as the bus goes: one pinned buffer copied again and again; None without a GPU."""
        if "simgpu" in sys.modules or not there[0].is_cuda:
            return {"pinned_to_device_s": None, "pinned_to_cpu_s": None}
        pinned = there[0].to("cpu").pin_memory()
        started = settled()
        for target in there:
            target.copy_(pinned, non_blocking=True)
        arrived = settled()
        for source in there:
            pinned.copy_(source, non_blocking=True)
        return {"pinned_to_device_s": arrived - started, "pinned_to_cpu_s": settled() - arrived}


class BenchHold(Bench):
    """Tensors on the device that the node cache keeps, as some packs' outputs are."""

    OUTPUT_NODE = False
    INPUTS, OPTIONAL = {"large_mib": ("INT", {}), "small": ("INT", {})}, {"after": (ANY,)}

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def run(self, large_mib, small, after=None):
        device = mm.get_torch_device()
        large = torch.zeros(large_mib * 2**18, device=device)
        return ([large, *(torch.zeros(256, device=device) for _ in range(small))],)


class BenchHeld(Bench):
    """The bytes that the held tensors need of the allocator, which rounds each up to 512."""

    INPUTS = {"held": (ANY,)}

    def run(self, held):
        sizes = [t.numel() * t.element_size() for t in held if t.device.type != "cpu"]
        return self.shown({"bytes": sum(-(-size // 512) * 512 for size in sizes)}, held)


class BenchBoth(Bench):
    """Hands `a` on when `b` is ready too."""

    OUTPUT_NODE = False
    INPUTS = {"a": (ANY,), "b": (ANY,)}

    def run(self, a, b):
        return (a,)


class BenchClass(Bench):
    """A diffusion model of one class at its real layer sizes, with all that a sampler takes.

    `zeros` is for a simulated GPU that leaves the arithmetic out.
    """

    OUTPUT_NODE = False
    RETURN_TYPES = ("MODEL", "CONDITIONING", "LATENT")
    INPUTS = {"kind": (list(SHAPES),), "batch": ("INT", {}), "divide": ("INT", {}),
              "zeros": ("BOOLEAN", {})}

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def run(self, kind, batch, divide, zeros):
        model = zero_model(kind) if zeros else random_model(kind)
        return model, conditioning(kind), latent(kind, batch, divide)


NODE_CLASS_MAPPINGS = {
    cls.__name__: cls
    for cls in (BenchModel, BenchLoad, BenchCopy, BenchHold, BenchHeld, BenchBoth,
                BenchClass)
}
