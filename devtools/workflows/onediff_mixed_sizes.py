"""Pictures of many sizes with one compiled model, run from large to small."""

from ..canvas import Canvas
from . import files

TITLE = "Mixed sizes run out of memory"
PROBLEM = """\
A server with a compiled model that went through picture sizes from small to large ran out of
memory at the second size, although the largest size alone fitted: what the smaller sizes had left
in the allocator's cache could not be used for the larger ones.
"""
SOLUTION = """\
**Size Sorter** runs the largest size first, so that every later one fits into memory that is
already there. **Restore Order** puts the pictures back into the order that you asked for.
"""
USE = """\
1. Download the checkpoint (ComfyUI offers that when it opens this workflow).
2. Write the sizes into *Size Sorter*: one a line (`1024x1152`), or as here every combination of
   heights and widths.
3. Run. The pictures are saved in your order.

`fit` = `round up to bucket` gives fewer distinct shapes, hence fewer graphs to compile.
Compiling needs a C++ compiler and Triton; without them bypass *TorchCompileModel* (Ctrl-B).
"""
SIZES = "heights=[1024, 1152, 1360, 1536]\nwidths=[1024, 1152, 1360, 1536]"


def draw(c: Canvas, notes: str) -> None:
    with c.group("Read me", "#8A8", 480):
        c.note(notes)
    with c.group("1 · Load and compile", width=360):
        loaded = c.add("CheckpointLoaderSimple", models=[files.SDXL], ckpt_name=files.SDXL.name)
        model = c.add("TorchCompileModel", model=loaded[0], backend="inductor")
        positive = c.add("CLIPTextEncode", "Prompt", clip=loaded[1],
                         text="a mountain village in autumn, wide view, detailed, evening light")
        negative = c.add("CLIPTextEncode", "Negative prompt", clip=loaded[1],
                         text="blurry, text, watermark")
    with c.group("2 · Largest first", "#A88", 380):
        sizes = c.add("HeadroomSizeSorter", "Size Sorter: 16 sizes", sizes=SIZES)
        c.add("PreviewAny", "The order and why", source=sizes[4])
    with c.group("3 · Sample every size", width=340):
        latent = c.add("EmptyLatentImage", width=sizes[0], height=sizes[1])
        samples = c.add("KSampler", model=model, positive=positive, negative=negative,
                        latent_image=latent, seed=7, steps=20, cfg=7.0, sampler_name="euler",
                        scheduler="normal")
        images = c.add("VAEDecode", samples=samples, vae=loaded[2])
    with c.group("4 · Back in the order asked for", "#A88", 400):
        ordered = c.add("HeadroomRestoreOrder", items=images, index=sizes[3])
        c.add("SaveImage", images=ordered, filename_prefix="headroom/mixed_sizes")
    with c.group("What it used", "#88A", 420):
        made = c.add("HeadroomSizeSorter", "Wait for all pictures, list their sizes",
                     items=ordered, sizes="")
        report = c.add("HeadroomMemoryReport", value=made[4])
        c.add("PreviewImage", "Memory over time", images=report[2])
