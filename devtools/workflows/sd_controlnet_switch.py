"""Base model and ControlNet in turns, queue after queue: prevent, monitor, clean."""

from typing import Any

from ..canvas import Canvas
from . import files

TITLE = "Base model and ControlNet in turns"
PROBLEM = """\
A server that goes back and forth between the base model and a ControlNet holds more and more until
a prompt fails, and a failed prompt takes the rest of the night's queue with it.
"""
SOLUTION = """\
- *Prevent*: **OOM Guard** on model and VAE repeats a step that ran out of memory, after freeing,
  offloading, splitting or tiling.
- *Monitor*: **Memory Report** shows which node used how much, for every prompt.
- *Clean*: **Offload Model** takes the ControlNet off the GPU when its picture is sampled, and
  **Purge VRAM** at the end empties the GPU if less than 4 GB are free.
"""
USE = """\
1. Download the two files (ComfyUI offers that when it opens this workflow).
2. Choose a picture whose outlines the second result should follow.
3. Set the batch count to as many queues as you like and run: the seed changes by itself.
"""


def draw(c: Canvas, notes: str) -> None:
    with c.group("Read me", "#8A8", 480):
        c.note(notes)
    with c.group("1 · Load", width=360):
        loaded = c.add("CheckpointLoaderSimple", models=[files.SD15], ckpt_name=files.SD15.name)
        control = c.add("ControlNetLoader", models=[files.SD15_CANNY],
                        control_net_name=files.SD15_CANNY.name)
        picture = c.add("LoadImage", image="example.png")
        edges = c.add("Canny", image=picture, low_threshold=0.2, high_threshold=0.5)
    with c.group("2 · Prevent", "#A88", 340):
        model = c.add("HeadroomOOMGuard", "Guard the model", model=loaded[0])
        vae = c.add("HeadroomOOMGuard", "Guard the VAE", model=loaded[2])
        positive = c.add("CLIPTextEncode", "Prompt", clip=loaded[1],
                         text="a watercolour of a quiet harbour, boats, soft light")
        negative = c.add("CLIPTextEncode", "Negative prompt", clip=loaded[1],
                         text="blurry, text, watermark")
        latent = c.add("EmptyLatentImage", width=512, height=512)
    with c.group("3 · Base model", width=340):
        settings: dict[str, Any] = {
            "steps": 20, "cfg": 7.0, "sampler_name": "euler", "scheduler": "normal",
            "latent_image": latent, "model": model, "control": "randomize",
        }
        plain = c.add("KSampler", "Without ControlNet", positive=positive, negative=negative,
                      seed=1, **settings)
        first = c.add("VAEDecode", samples=plain, vae=vae)
    with c.group("4 · With ControlNet", width=340):
        steered = c.add("ControlNetApplyAdvanced", positive=positive, negative=negative,
                        control_net=control, image=edges)
        shaped = c.add("KSampler", "With ControlNet", positive=steered[0], negative=steered[1],
                       seed=2, **settings)
        left = c.add("HeadroomOffloadModel", "The ControlNet leaves", model=control, after=shaped)
        second = c.add("VAEDecode", samples=left[1], vae=vae)
    with c.group("5 · Monitor and clean", "#A88", 400):
        both = c.add("ImageBatch", image1=first, image2=second)
        clean = c.add("HeadroomPurgeVRAM", "Clean if less than 4 GB are free", value=both,
                      only_below_free_mib=4096)
        c.add("SaveImage", images=clean[0], filename_prefix="headroom/controlnet_switch")
    with c.group("What it used", "#88A", 420):
        report = c.add("HeadroomMemoryReport", value=clean[0])
        c.add("PreviewAny", "Table", source=report[1])
        c.add("PreviewImage", "Memory over time", images=report[2])
