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

from .sweep import ANY, Node

_ran: dict[str, int] = {}


def _count(key):
    _ran[key] = _ran.get(key, 0) + 1
    return _ran[key]


class OomOnce(Node):
    """A third-party node: it hands `value` on, but runs out of memory the first `times` times.

    Another word in `error` is the text of a RuntimeError.
    """

    INPUTS = {"value": (ANY,), "key": ("STRING", {}), "times": ("INT", {}),
              "error": ("STRING", {})}

    def run(self, value, key, times, error):
        if _count(key) > times:
            return (value,)
        if error:
            raise RuntimeError(error)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 ...")


class OomHolds(Node):
    """Ends with `mib` of tensors on the GPU in its frame: by an error, or as if interrupted."""

    OUTPUT_NODE = True
    INPUTS = {"mib": ("INT", {}), "interrupted": ("BOOLEAN", {})}

    def run(self, mib, interrupted):
        held = torch.zeros(mib << 20, dtype=torch.uint8, device=mm.get_torch_device())
        if interrupted:
            raise mm.InterruptProcessingException
        raise RuntimeError(f"cannot go on with {held.numel()} bytes")


class OomAllocated(Node):
    """An output node that tells the bytes of all tensors on the GPU."""

    OUTPUT_NODE = True
    INPUTS = {"key": ("STRING", {})}

    def run(self, key):
        return {"ui": {"text": [json.dumps(torch.cuda.memory_allocated())]}}


class OomWrites(Node):
    """An output node that tells how often it has run for its key."""

    OUTPUT_NODE = True
    INPUTS = {"value": (ANY,), "key": ("STRING", {})}

    def run(self, value, key):
        return {"ui": {"text": [json.dumps(_count(key))]}, "result": (value,)}


class OomWritesAlways(OomWrites):
    """The same, but ComfyUI keeps no result of it: it runs again in every queue."""

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")


class OomDraws(Node):
    """Gives another number in each run; its change mark says so."""

    RETURN_TYPES = ("INT",)
    INPUTS = {"key": ("STRING", {})}

    @classmethod
    def IS_CHANGED(cls, key):
        return _count(f"{key} changed")

    def run(self, key):
        return (_count(key),)


class OomCleans(Node):
    """A cleaner: it hands `value` on, and asks ComfyUI to forget every node's result."""

    INPUTS = {"value": (ANY,)}

    def run(self, value):
        PromptServer.instance.prompt_queue.set_flag("free_memory", True)
        return (value,)


class OomExpands(Node):
    """Stands for a KSampler and its VAEDecode, which it makes when it runs."""

    RETURN_TYPES = ("IMAGE",)
    INPUTS = {"model": ("MODEL",), "positive": ("CONDITIONING",),
              "latent": ("LATENT",), "vae": ("VAE",), "seed": ("INT", {})}

    def run(self, model, positive, latent, vae, seed):
        graph = GraphBuilder()
        sample = graph.node(
            "KSampler", model=model, positive=positive, negative=positive, latent_image=latent,
            seed=seed, steps=2, cfg=4.0, sampler_name="euler", scheduler="normal", denoise=1.0)
        image = graph.node("VAEDecode", samples=sample.out(0), vae=vae)
        return {"result": (image.out(0),), "expand": graph.finalize()}


class OomStartsLoop(Node):
    """Begins a loop as newer ComfyUIs do: the turns are copies of the node `body`, shown as it."""

    INPUTS = {"value": (ANY,), "body": ("STRING", {})}
    HIDDEN = {"dynprompt": "DYNPROMPT"}

    def run(self, value, body, dynprompt):
        graph, original = GraphBuilder(), dynprompt.get_node(body)
        turn = graph.node(original["class_type"], f"0_{body}", **original["inputs"])
        turn.set_input("value", value)
        turn.set_override_display_id(body)
        return {"result": (turn.out(0),), "expand": graph.finalize()}


class OomHalfMadeHint(Node):
    """Leaves a ControlNet in the state in which a failure leaves it while it prepares its hint."""

    RETURN_TYPES = ("CONDITIONING",)
    INPUTS = {"conditioning": ("CONDITIONING",)}

    def run(self, conditioning):
        for _, entry in conditioning:
            entry["control"].cond_hint = torch.zeros(1, 3, 64, 64)
        return (conditioning,)


class OomPipe(Node):
    """Puts a model into a type that only its own pack knows."""

    RETURN_TYPES = ("OOM_PIPE",)
    INPUTS = {"model": ("MODEL",)}

    def run(self, model):
        return (model,)


class OomFromPipe(OomOnce):
    """Takes such a pipe and runs out of memory once."""

    INPUTS = {"pipe": ("OOM_PIPE",), "key": ("STRING", {})}

    def run(self, pipe, key):
        return super().run(pipe, key, 1, "")


class OomThenKills(Node):
    """Runs out of memory the first time, kills its server the second, then hands `value` on.

    Its count outlives the server, in the output folder.
    """

    INPUTS = {"value": (ANY,), "key": ("STRING", {})}

    def run(self, value, key):
        with (Path(folder_paths.get_output_directory()) / key).open("ab+") as runs:
            runs.write(b"x")
            count = runs.tell()
        if count == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB.")
        if count == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return (value,)
