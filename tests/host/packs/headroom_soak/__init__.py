"""Nodes of the soak: one arms a fault for its own prompt, one keeps what was computed on disk."""

import gc
import hashlib
import json
import sys
from functools import cache
from pathlib import Path

import comfy.model_management as mm
import comfy.utils
import folder_paths
import numpy
import torch
from aiohttp import web
from server import PromptServer

from . import heap


class AnyType(str):
    def __ne__(self, other):
        return False


ANY = AnyType("*")
faults = {}  # by the tag of the prompt, until told; the last one's stays on the device
read = {"tensors": 0}  # from model files, since the server started
load_torch_file = comfy.utils.load_torch_file


def counted(*args, **options):
    """ComfyUI's own reading of a model file; how many tensors came is what `read` adds up."""
    found = load_torch_file(*args, **options)
    read["tensors"] += len(found[0] if isinstance(found, tuple) else found)
    return found


comfy.utils.load_torch_file = counted  # by an instrument on a server of its own; never in the pack


def running_prompt():
    return PromptServer.instance.last_prompt_id


def arm(tag, settings):
    """Fail allocations of the running prompt only; with `at` = 0 they are just counted."""
    fault = faults[tag] = sys.modules["simgpu"].current().fault = of_one_prompt()(**settings)
    fault.prompt_id = running_prompt()


@cache
def of_one_prompt():
    """A class of faults that strike in one prompt only; simgpu is there once the server runs."""

    class OfOnePrompt(sys.modules["simgpu"].Fault):
        prompt_id = None

        def strikes(self, nbytes):
            if running_prompt() != self.prompt_id:
                return False
            self.seen += 1
            hit = 0 < self.at <= self.seen and self.failed < self.times
            self.failed += hit
            return hit

    return OfOnePrompt


class SoakPass:
    """Hand a value on; the first of these nodes in a prompt arms the fault of `plan`.

    `plan` differs in every prompt, so nothing behind this node comes from the node cache.
    """

    CATEGORY = "headroom tests"
    RETURN_TYPES = (ANY,)
    FUNCTION = "run"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,), "plan": ("STRING", {"default": "{}"})}}

    def run(self, value, plan):
        asked = json.loads(plan)
        if asked["tag"] not in faults:
            arm(asked["tag"], asked["fault"])
        return (value,)


class SoakKeep:
    """Keep a LATENT, IMAGE or CONDITIONING as a file named after its digest."""

    CATEGORY = "headroom tests"
    RETURN_TYPES = ()
    FUNCTION = "run"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,)}}

    def run(self, value):
        if isinstance(value, dict):
            value = value["samples"]
        elif isinstance(value, list):
            value = value[0][0]
        array = value.detach().to("cpu", torch.float32).contiguous().numpy()
        digest = hashlib.sha256(str((array.shape, value.dtype)).encode() + array.tobytes())
        folder = Path(folder_paths.get_output_directory()) / "soak"
        folder.mkdir(exist_ok=True)
        path = folder / f"{digest.hexdigest()}.npy"
        if not path.exists():
            numpy.save(path, array)
        return {"ui": {"text": [digest.hexdigest()]}}


class SoakUpscaleInTiles:
    """What ImageUpscaleWithModel gives when it works in tiles of 32 pixels."""

    CATEGORY = "headroom tests"
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "run"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"upscale_model": ("UPSCALE_MODEL",), "image": ("IMAGE",)}}

    def run(self, upscale_model, image):
        device = mm.get_torch_device()
        upscale_model.to(device)
        scaled = comfy.utils.tiled_scale(
            image.movedim(-1, -3).to(device), upscale_model, tile_x=32, tile_y=32, overlap=16,
            upscale_amount=upscale_model.scale, output_device=device,
        )
        upscale_model.to("cpu")
        return (torch.clamp(scaled.movedim(-3, -1), min=0, max=1.0).cpu(),)


@PromptServer.instance.routes.get("/soak/faults")
async def told(request):
    """The faults of the prompts since the last time; asked when none of them runs any more."""
    found = {tag: fault.as_dict() for tag, fault in faults.items()}
    faults.clear()
    return web.json_response(found)


@PromptServer.instance.routes.get("/soak/heap")
async def told_heap(request):
    """Bytes in use, and those of them that safetensors keeps of the tensors it has read."""
    gc.collect()
    kept = heap.kept_bytes_a_tensor() * read["tensors"]
    return web.json_response({"in_use_bytes": heap.in_use_bytes(), "kept_by_reading_bytes": kept})


NODE_CLASS_MAPPINGS = {cls.__name__: cls for cls in (SoakPass, SoakKeep, SoakUpscaleInTiles)}
