"""Nodes that run out of memory when asked, write something each time they run, or expand."""

import json
import os
import signal
from pathlib import Path

import comfy.model_management as mm
import folder_paths
import torch
from comfy_execution.graph_utils import GraphBuilder
from server import PromptServer


class AnyType(str):
    def __ne__(self, other):
        return False


ANY = AnyType("*")
_ran: dict[str, int] = {}


def _count(key):
    _ran[key] = _ran.get(key, 0) + 1
    return _ran[key]


class _Node:
    CATEGORY = "headroom_oom_probe"
    FUNCTION = "execute"
    RETURN_TYPES = (ANY,)
    OUTPUT_NODE = False


class OomOnce(_Node):
    """A third-party node: it hands `value` on, but runs out of memory the first `times` times.

    Another word in `error` is the text of a RuntimeError.
    """

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,), "key": ("STRING", {}), "times": ("INT", {}),
                             "error": ("STRING", {})}}

    def execute(self, value, key, times, error):
        if _count(key) > times:
            return (value,)
        if error:
            raise RuntimeError(error)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 ...")


class OomHolds(_Node):
    """Ends with `mib` of tensors on the GPU in its frame: by an error, or as if interrupted."""

    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mib": ("INT", {}), "interrupted": ("BOOLEAN", {})}}

    def execute(self, mib, interrupted):
        held = torch.zeros(mib << 20, dtype=torch.uint8, device=mm.get_torch_device())
        if interrupted:
            raise mm.InterruptProcessingException
        raise RuntimeError(f"cannot go on with {held.numel()} bytes")


class OomAllocated(_Node):
    """An output node that tells the bytes of all tensors on the GPU."""

    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"key": ("STRING", {})}}

    def execute(self, key):
        return {"ui": {"text": [json.dumps(torch.cuda.memory_allocated())]}}


class OomWrites(_Node):
    """An output node that tells how often it has run for its key."""

    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,), "key": ("STRING", {})}}

    def execute(self, value, key):
        return {"ui": {"text": [json.dumps(_count(key))]}, "result": (value,)}


class OomWritesAlways(OomWrites):
    """The same, but ComfyUI keeps no result of it: it runs again in every queue."""

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")


class OomDraws(_Node):
    """Gives another number in each run; its change mark says so."""

    RETURN_TYPES = ("INT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"key": ("STRING", {})}}

    @classmethod
    def IS_CHANGED(cls, key):
        return _count(f"{key} changed")

    def execute(self, key):
        return (_count(key),)


class OomCleans(_Node):
    """A cleaner: it hands `value` on, and asks ComfyUI to forget every node's result."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,)}}

    def execute(self, value):
        PromptServer.instance.prompt_queue.set_flag("free_memory", True)
        return (value,)


class OomExpands(_Node):
    """Stands for a KSampler and its VAEDecode, which it makes when it runs."""

    RETURN_TYPES = ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "positive": ("CONDITIONING",),
                             "latent": ("LATENT",), "vae": ("VAE",), "seed": ("INT", {})}}

    def execute(self, model, positive, latent, vae, seed):
        graph = GraphBuilder()
        sample = graph.node(
            "KSampler", model=model, positive=positive, negative=positive, latent_image=latent,
            seed=seed, steps=2, cfg=4.0, sampler_name="euler", scheduler="normal", denoise=1.0)
        image = graph.node("VAEDecode", samples=sample.out(0), vae=vae)
        return {"result": (image.out(0),), "expand": graph.finalize()}


class OomStartsLoop(_Node):
    """Begins a loop as newer ComfyUIs do: the turns are copies of the node `body`, shown as it."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,), "body": ("STRING", {})},
                "hidden": {"dynprompt": "DYNPROMPT"}}

    def execute(self, value, body, dynprompt):
        graph, original = GraphBuilder(), dynprompt.get_node(body)
        turn = graph.node(original["class_type"], f"0_{body}", **original["inputs"])
        turn.set_input("value", value)
        turn.set_override_display_id(body)
        return {"result": (turn.out(0),), "expand": graph.finalize()}


class OomHalfMadeHint(_Node):
    """Leaves a ControlNet in the state in which a failure leaves it while it prepares its hint."""

    RETURN_TYPES = ("CONDITIONING",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning": ("CONDITIONING",)}}

    def execute(self, conditioning):
        for _, entry in conditioning:
            entry["control"].cond_hint = torch.zeros(1, 3, 64, 64)
        return (conditioning,)


class OomPipe(_Node):
    """Puts a model into a type that only its own pack knows."""

    RETURN_TYPES = ("OOM_PIPE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",)}}

    def execute(self, model):
        return (model,)


class OomFromPipe(OomOnce):
    """Takes such a pipe and runs out of memory once."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"pipe": ("OOM_PIPE",), "key": ("STRING", {})}}

    def execute(self, pipe, key):
        return super().execute(pipe, key, 1, "")


class OomThenKills(_Node):
    """Runs out of memory the first time, kills its server the second, then hands `value` on.

    Its count outlives the server, in the output folder.
    """

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,), "key": ("STRING", {})}}

    def execute(self, value, key):
        with (Path(folder_paths.get_output_directory()) / key).open("ab+") as runs:
            runs.write(b"x")
            count = runs.tell()
        if count == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB.")
        if count == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return (value,)
