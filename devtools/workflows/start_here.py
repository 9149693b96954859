"""Every node of the pack once, on a small model."""

from ..canvas import Canvas
from . import files

TITLE = "Start here: every node once"
PROBLEM = """\
You do not know yet where your memory goes, or which of these nodes you need.
"""
SOLUTION = """\
From left to right, in the order in which you will want them (the green ones are ours):

- **Cast bf16** makes a copy in bfloat16 and says what that saves.
- **OOM Guard** makes a step that runs out of memory recover instead of failing.
- **Encode to CPU** encodes and lets the text encoder go.
- **Size Sorter** and **Restore Order** run the large picture first and give yours back in order.
- **Move to CPU** takes the result off the GPU, **Offload Model** the model that made it.
- **Purge VRAM** empties the rest, **Memory Report** shows who used what.
"""
USE = """\
1. Download the checkpoint (ComfyUI offers that when it opens this workflow).
2. Run, then open the Headroom tab in the side bar: the badges on the nodes and the table there
   show the same figures.

Press **?** on any node for its help page. Nothing here is needed to save memory everywhere: take
the node that solves your problem.
"""


def draw(c: Canvas, notes: str) -> None:
    with c.group("Read me", "#8A8", 480):
        c.note(notes)
    with c.group("1 · Load", width=340):
        loaded = c.add("CheckpointLoaderSimple", models=[files.SD15], ckpt_name=files.SD15.name)
        cast = c.add("HeadroomCastBF16", model=loaded[0])
        model = c.add("HeadroomOOMGuard", model=cast)
    with c.group("2 · Encode", width=360):
        positive = c.add("HeadroomEncodeToCPU", "Prompt", clip=loaded[1],
                         text="a small wooden cabin by a lake, morning mist")
        negative = c.add("HeadroomEncodeToCPU", "Negative prompt", clip=loaded[1],
                         text="blurry, text, watermark")
    with c.group("3 · Sample, large pictures first", width=340):
        sizes = c.add("HeadroomSizeSorter", sizes="384x384\n512x384")
        latent = c.add("EmptyLatentImage", width=sizes[0], height=sizes[1])
        samples = c.add("KSampler", model=model, positive=positive, negative=negative,
                        latent_image=latent, seed=3, steps=20, cfg=7.0, sampler_name="euler",
                        scheduler="normal")
    with c.group("4 · Make room, then decode", width=340):
        moved = c.add("HeadroomMoveToCPU", value=samples)
        alone = c.add("HeadroomOffloadModel", "The diffusion model leaves", model=model,
                      after=moved)
        images = c.add("VAEDecode", samples=alone[1], vae=loaded[2])
        ordered = c.add("HeadroomRestoreOrder", items=images, index=sizes[3])
        c.add("SaveImage", images=ordered, filename_prefix="headroom/start_here")
    with c.group("5 · Clean up and look", width=420):
        made = c.add("HeadroomSizeSorter", "Wait for all pictures, list their sizes",
                     items=ordered, sizes="")
        clean = c.add("HeadroomPurgeVRAM", value=made[4])
        report = c.add("HeadroomMemoryReport", value=clean[0])
        c.add("PreviewAny", "Table", source=report[1])
        c.add("PreviewImage", "Memory over time", images=report[2])
