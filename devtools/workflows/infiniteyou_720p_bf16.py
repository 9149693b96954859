"""A Flux-class model with a ControlNet at 1280x720: purge, bfloat16, offload between stages."""

from ..canvas import Canvas
from . import files

TITLE = "Flux with ControlNet at 1280×720 on a smaller card"
PROBLEM = """\
InfiniteYou (a Flux-class model with a ControlNet) at 720p ran out of memory on a 32 GB card with
its components in float32, all of them on the GPU at once.
"""
SOLUTION = """\
Every stage has the GPU for itself, and every component is bfloat16:

- **Cast bf16** on model, text encoder, ControlNet and VAE. What is bfloat16 already passes through
  and the report says so.
- **Encode to CPU** releases the text encoder; **Purge VRAM** makes sure that nothing is left
  before the diffusion model is loaded.
- **Offload Model** takes everything but the VAE off the GPU before the picture is decoded.
- **OOM Guard** on model and VAE: offloads, splits or tiles only if the step fails without it.
"""
USE = """\
1. Download the five files (ComfyUI offers that when it opens this workflow).
2. Choose a picture whose outlines the result should follow.
3. Run. 50 steps, guidance 3.5; ComfyUI's EasyCache skips the steps that change little.
"""
PROMPT = "a portrait of a scientist in a sunlit greenhouse, 35 mm photograph, natural skin"
WIDTH, HEIGHT = 1280, 720


def draw(c: Canvas, notes: str) -> None:
    with c.group("Read me", "#8A8", 500):
        c.note(notes)
    with c.group("1 · Encode, then empty the GPU", "#A88", 360):
        clip = c.add("DualCLIPLoader", models=[files.CLIP_L, files.T5],
                     clip_name1=files.CLIP_L.name, clip_name2=files.T5.name, type="flux")
        clip = c.add("HeadroomCastBF16", "Text encoder in bf16", model=clip)
        prompt = c.add("HeadroomEncodeToCPU", "Prompt", clip=clip, text=PROMPT)
        guided = c.add("FluxGuidance", conditioning=prompt, guidance=3.5)
        purged = c.add("HeadroomPurgeVRAM", "Purge before the model loads", value=guided)
        unguided = c.add("ConditioningZeroOut", conditioning=purged[0])
    with c.group("2 · What the picture should follow", width=340):
        picture = c.add("LoadImage", image="example.png")
        scaled = c.add("ImageScale", image=picture, upscale_method="lanczos", width=WIDTH,
                       height=HEIGHT, crop="center")
        edges = c.add("Canny", image=scaled, low_threshold=0.2, high_threshold=0.5)
        control = c.add("ControlNetLoader", models=[files.FLUX_CANNY],
                        control_net_name=files.FLUX_CANNY.name)
        control = c.add("HeadroomCastBF16", "ControlNet in bf16", model=control)
        steered = c.add("ControlNetApplyAdvanced", positive=purged[0], negative=unguided,
                        control_net=control, image=edges, strength=0.7, end_percent=0.6)
    with c.group("3 · Sample", "#A88", 340):
        model = c.add("UNETLoader", models=[files.FLUX], unet_name=files.FLUX.name)
        model = c.add("HeadroomCastBF16", "Diffusion model in bf16", model=model)
        quick = c.add("EasyCache", model=model)
        guarded = c.add("HeadroomOOMGuard", "Guard the model", model=quick)
        latent = c.add("EmptySD3LatentImage", width=WIDTH, height=HEIGHT)
        samples = c.add("KSampler", model=guarded, positive=steered[0], negative=steered[1],
                        latent_image=latent, seed=50, steps=50, cfg=1.0, sampler_name="euler",
                        scheduler="simple")
    with c.group("4 · Decode with the GPU to itself", "#A88", 360):
        vae = c.add("VAELoader", models=[files.FLUX_VAE], vae_name=files.FLUX_VAE.name)
        vae = c.add("HeadroomCastBF16", "VAE in bf16", model=vae)
        vae = c.add("HeadroomOOMGuard", "Guard the VAE: tiles only if needed", model=vae)
        alone = c.add("HeadroomOffloadModel", "Everything but the VAE leaves", model=vae,
                      after=samples, scope="every other model")
        image = c.add("VAEDecode", samples=alone[1], vae=alone[0])
        c.add("SaveImage", images=image, filename_prefix="headroom/720p_bf16")
    with c.group("What it used", "#88A", 420):
        report = c.add("HeadroomMemoryReport", value=image)
        c.add("PreviewAny", "Table", source=report[1])
        c.add("PreviewImage", "Memory over time", images=report[2])
