"""Many prompts for one video model: encoded into RAM, encoder released, then sampled."""

from ..canvas import Canvas
from . import files

TITLE = "A loop of prompts fills the GPU"
PROBLEM = """\
A script that called Wan's `encode_prompt` in a loop kept every result, and the text encoder, on
the GPU: 48 GB were full before the first video was sampled.
"""
SOLUTION = """\
**Encode to CPU** encodes one prompt a line, keeps each result in RAM, and unloads the text encoder
when the last one is done. Only then the video model is loaded; the sampler takes the results one
by one.
"""
USE = """\
1. Download the three files (ComfyUI offers that when it opens this workflow).
2. Write your prompts into *Prompts, one a line*. Add as many lines as you like.
3. Run. The report under *What encoding left on the GPU* shows the memory at the moment when the
   encoder has gone.

With `cache` = `disk` a prompt that was encoded once never needs the encoder again.
"""
PROMPTS = """\
A red fox runs through fresh snow at sunrise, low sun behind the trees
A paper boat floats down a rainy city gutter, close to the water
Steam rises from a bowl of noodles on a night market table
A lighthouse beam turns over a stormy sea, seen from the cliffs"""
NEGATIVE = "blurred, static, overexposed, subtitles, low quality, deformed hands"


def draw(c: Canvas, notes: str) -> None:
    with c.group("Read me", "#8A8", 480):
        c.note(notes)
    with c.group("1 · Encode, then let the encoder go", "#A88", 420):
        clip = c.add("CLIPLoader", models=[files.UMT5], clip_name=files.UMT5.name, type="wan")
        prompts = c.add("HeadroomEncodeToCPU", "Prompts, one a line", clip=clip, text=PROMPTS,
                        split="one prompt per line")
        negative = c.add("HeadroomEncodeToCPU", "Negative prompt", clip=clip, text=NEGATIVE)
    with c.group("2 · Sample each prompt", width=340):
        model = c.add("UNETLoader", models=[files.WAN_T2V], unet_name=files.WAN_T2V.name)
        shifted = c.add("ModelSamplingSD3", model=model, shift=8.0)
        latent = c.add("EmptyHunyuanLatentVideo", width=832, height=480, length=33)
        samples = c.add("KSampler", model=shifted, positive=prompts[0], negative=negative[0],
                        latent_image=latent, seed=1, steps=30, cfg=6.0, sampler_name="uni_pc",
                        scheduler="simple")
    with c.group("3 · Decode and save", width=380):
        vae = c.add("VAELoader", models=[files.WAN_VAE], vae_name=files.WAN_VAE.name)
        frames = c.add("VAEDecode", samples=samples, vae=vae)
        c.add("SaveAnimatedWEBP", images=frames, filename_prefix="headroom/prompt_loop", fps=16.0,
              lossless=False, quality=85, method="default")
    with c.group("What encoding left on the GPU", "#88A", 420):
        report = c.add("HeadroomMemoryReport", "After encoding", value=prompts[2])
        c.add("PreviewAny", "What the encoder freed", source=prompts[2])
        c.add("PreviewImage", "Memory over time", images=report[2])
