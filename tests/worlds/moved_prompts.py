"""The prompts that moved_host.py runs, and what they need beside a model."""

import torch


class Clip:
    """A text encoder without a model."""

    def tokenize(self, text):
        return text

    def encode_from_tokens_scheduled(self, tokens, **_):
        return [[torch.ones(1, 4, 4096), {"pooled_output": torch.ones(1, 2048)}]]


class RunsOut:
    """Runs out of memory, and no guard is there."""

    RETURN_TYPES, FUNCTION, CATEGORY, OUTPUT_NODE = (), "fail", "test", True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",)}}

    def fail(self, model):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def node(kind, **inputs):
    return {"class_type": kind, "inputs": inputs}


FINISHES = {
    "1": node("Tiny"),
    "2": node("HeadroomOOMGuard", model=["1", 0], free_other_models=True, offload_weights=True,
              split_batch=True, tile_vae=True, max_attempts=8),
    "3": node("HeadroomCastBF16", model=["2", 0], dtype="bfloat16", keep_float32=""),
    "4": node("HeadroomEncodeToCPU", clip=["1", 2], text="a", split="one prompt",
              release_encoder=True, cache="disk"),
    "5": node("KSampler", model=["3", 0], seed=1, steps=1, cfg=1.0, sampler_name="euler",
              scheduler="normal", positive=["4", 0], negative=["1", 3], latent_image=["1", 4],
              denoise=1.0),
    "6": node("HeadroomOOMGuard", model=["1", 1], free_other_models=True, offload_weights=True,
              split_batch=True, tile_vae=True, max_attempts=8),
    "7": node("VAEDecode", samples=["5", 0], vae=["6", 0]),
    "8": node("HeadroomPurgeVRAM", value=["7", 0], unload="all models", only_below_free_mib=0,
              free_ram=False, reset_node_cache=True, run="every time"),
    "9": node("HeadroomOffloadModel", model=["1", 0], after=["8", 0], scope="this model",
              to="disk"),
    "10": node("HeadroomMemoryReport", value=["9", 1]),
    "11": node("HeadroomSaveConditioning", conditioning=["4", 0], name="kept"),
    "12": node("HeadroomSizeSorter", sizes="", order="largest first", fit="keep each size",
               bucket=64),
    "13": node("HeadroomMoveToCPU", value=["12", 2]),
    "14": node("HeadroomMemoryReport", value=["13", 0]),
}
FAILS = {"1": node("Tiny"), "2": node("RunsOut", model=["1", 0])}
