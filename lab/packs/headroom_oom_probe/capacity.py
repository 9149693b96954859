"""Whether the stages of a workflow complete on a GPU of a size."""

import gc
import hashlib
import json
import sys
from contextlib import contextmanager, nullcontext

import comfy.model_management as mm
import torch

import nodes

from .sweep import ProbeNode, device


def shapes_only():
    """Leave out the arithmetic; on a fake CUDA device there is none."""
    if not simulated():
        return nullcontext()
    from simgpu import shapes

    return shapes.shapes_only()


def simulated():
    return "simgpu" in sys.modules


@contextmanager
def limited_to(mib):
    """A simulated GPU of that size, and a function of its peak; a fake one is set from outside."""
    if not simulated():
        torch.cuda.reset_peak_memory_stats()
        yield torch.cuda.max_memory_allocated
        return
    with device().locked() as ledger:
        usual, ledger.capacity_bytes = ledger.capacity_bytes, mib << 20
        ledger.stats.reset_highest()
    yield lambda: device().figures().peak_allocated_bytes
    _unload_everything()
    with device().locked() as ledger:
        ledger.capacity_bytes = usual


def conditioning(seed):
    generator = torch.Generator().manual_seed(seed)
    return [[torch.randn(1, 77, 768, generator=generator), {}]]


def encode(clip):
    return clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))


def sample(model, size, batch, steps, cfg=4.0):
    latent = {"samples": torch.zeros(batch, 4, size // 8, size // 8)}
    return nodes.common_ksampler(
        model, 7, steps, cfg, "euler", "normal", conditioning(1), conditioning(2), latent
    )


def decode(vae, size, batch):
    generator = torch.Generator().manual_seed(3)
    return vae.decode(torch.randn(batch, 4, size // 8, size // 8, generator=generator))


def _unload_everything():
    mm.unload_all_models()
    gc.collect()
    mm.soft_empty_cache()


def digest(tensor):
    """The bits of a tensor as a short text."""
    return hashlib.sha256(tensor.cpu().contiguous().view(torch.uint8).numpy()).hexdigest()[:16]


class OomCapacityProbe(ProbeNode):
    """Does one stage of a workflow complete on a GPU of `mib`?"""

    INPUTS = {"model": ("MODEL",), "clip": ("CLIP",), "vae": ("VAE",), "stage": ("STRING",),
              "mib": ("INT",), "size": ("INT",), "batch": ("INT",), "steps": ("INT",),
              "computed": ("BOOLEAN", {"default": True})}
    OPTIONAL = {"cfg": ("FLOAT", {"default": 4.0})}

    def run(self, model, clip, vae, stage, mib, size, batch, steps, computed, cfg=4.0):
        stages = {
            "encode": lambda: encode(clip)[0][0],
            "sample": lambda: sample(model, size, batch, steps, cfg)[0]["samples"],
            "decode": lambda: decode(vae, size, batch),
        }
        _unload_everything()
        with limited_to(mib) as peak:
            answer = {"completed": True}
            try:
                with nullcontext() if computed else shapes_only():
                    answer["result"] = digest(stages[stage]())
            except RuntimeError as error:
                words = f"{type(error).__name__}: {str(error)[:500]}"
                answer = {"completed": False, "error": words}
            answer["peak_mib"] = round(peak() / 2**20, 1)
        return {"ui": {"text": [json.dumps(answer)]}}
