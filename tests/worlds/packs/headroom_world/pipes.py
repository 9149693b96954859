"""Everything on one wire of a type of the pack's own."""

import nodes

from .anything import Node


class WorldToPipe(Node):
    INPUTS = {"model": ("MODEL",), "clip": ("CLIP",), "vae": ("VAE",)}
    RETURN_TYPES = ("WORLD_PIPE",)

    def run(self, model, clip, vae):
        return ({"model": model, "clip": clip, "vae": vae, "images": None},)


class WorldPipeSampler(Node):
    """Encodes, samples and decodes with what is in the pipe."""

    INPUTS = {"pipe": ("WORLD_PIPE",), "seed": ("INT", {}), "size": ("INT", {})}
    RETURN_TYPES = ("IMAGE", "WORLD_PIPE")

    def run(self, pipe, seed, size):
        clip, vae = pipe["clip"], pipe["vae"]
        positive, negative = (
            clip.encode_from_tokens_scheduled(clip.tokenize(text))
            for text in ("a red cube", "blurry")
        )
        latent = nodes.EmptyLatentImage().generate(size, size, 1)[0]
        sampled = nodes.common_ksampler(pipe["model"], seed, 2, 4.0, "euler", "normal", positive,
                                        negative, latent)[0]
        images = vae.decode(sampled["samples"])
        return (images, {**pipe, "images": images})
