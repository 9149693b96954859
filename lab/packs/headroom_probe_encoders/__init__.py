"""Small text encoders of ComfyUI's own classes, and a close look at the conditioning they make."""

import hashlib
import json
import runpy
import sys
from pathlib import Path

import comfy.sd1_clip
import comfy.sdxl_clip
import comfy.text_encoders.flux
import comfy.text_encoders.sa_t5
import folder_paths
import torch
from comfy_execution.graph_utils import GraphBuilder
from safetensors.torch import load_file

PACKS = Path(__file__).resolve().parents[1]
random_clip = runpy.run_path(str(PACKS / "random_weights.py"))["random_clip"]
Node = runpy.run_path(str(PACKS / "node.py"))["Node"]
CLIP_SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
              "num_hidden_layers": 3}
CLIP_G_SMALL = {**CLIP_SMALL, "hidden_size": 96, "projection_dim": 96}
T5_SMALL = {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_heads": 4, "num_layers": 3}
SMALL = {"clip_l_model_config": CLIP_SMALL, "clip_g_model_config": CLIP_G_SMALL,
         "t5xxl_model_config": T5_SMALL, "t5base_model_config": T5_SMALL}
KINDS = {
    "sd15": (comfy.sd1_clip.SD1ClipModel, comfy.sd1_clip.SD1Tokenizer),
    "sdxl": (comfy.sdxl_clip.SDXLClipModel, comfy.sdxl_clip.SDXLTokenizer),
    "flux": (comfy.text_encoders.flux.flux_clip(), comfy.text_encoders.flux.FluxTokenizer),
    "t5": (comfy.text_encoders.sa_t5.SAT5Model, comfy.text_encoders.sa_t5.SAT5Tokenizer),
    "sd15_wide": (comfy.sd1_clip.SD1ClipModel, comfy.sd1_clip.SD1Tokenizer),
}
WIDE = {"clip_l_model_config": {"num_hidden_layers": 2}}


class ProbeEncoder(Node):
    """A CLIP of the given class with few layers and random weights from a seed."""

    RETURN_TYPES = ("CLIP",)
    INPUTS = {"kind": (list(KINDS),), "seed": ("INT", {"default": 0})}

    def run(self, kind, seed):
        return (small_encoder(kind, seed),)


class ProbeEncoderFile(Node):
    """The same from a file in the text_encoders folder that names the seed."""

    RETURN_TYPES = ("CLIP",)
    INPUTS = {"clip_name": ("STRING", {}), "kind": (list(KINDS),)}

    def run(self, clip_name, kind):
        content = load_file(folder_paths.get_full_path_or_raise("text_encoders", clip_name))
        return (small_encoder(kind, int(content["seed"])),)


def small_encoder(kind, seed):
    model, tokenizer = KINDS[kind]
    return random_clip(model, tokenizer, WIDE if kind == "sd15_wide" else SMALL, 1_000_000, seed)


class ProbeConditioning(Node):
    """Facts about a conditioning, one JSON text an execution; with `b`, whether it is the same."""

    OUTPUT_NODE = True
    RETURN_TYPES = ()
    INPUTS, OPTIONAL = {"a": ("CONDITIONING",)}, {"b": ("CONDITIONING",)}

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")

    def run(self, a, b=None):
        tensors = list(tensors_in(a))
        answer = {
            "entries": len(a),
            "keys": sorted(a[0][1]),
            "digest": digest_of(a),
            "same": None if b is None else describe(a) == describe(b),
            "tensors": len(tensors),
            "cpu": all(tensor.device.type == "cpu" for tensor in tensors),
            "contiguous": all(tensor.is_contiguous() for tensor in tensors),
            "detached": not any(tensor.requires_grad or tensor.grad_fn for tensor in tensors),
            "numpy_backed": not any(t.untyped_storage().resizable() for t in tensors),
            "own_storage": all(
                t.untyped_storage().nbytes() == t.numel() * t.element_size() for t in tensors
            ),
            "bytes": sum(t.numel() * t.element_size() for t in tensors),
        }
        return {"ui": {"text": [json.dumps(answer)]}}


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def describe(value):
    """The value as text: every bit of every tensor, types, keys, and other objects by identity."""
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"tensor {value.dtype} {tuple(value.shape)} {hashlib.sha256(data).hexdigest()}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {describe(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(describe, value))})"
    return repr(value)


def digest_of(value):
    return hashlib.sha256(describe(value).encode()).hexdigest()


class ProbeTexts(Node):
    """A list of texts, one a line."""

    RETURN_TYPES = ("STRING",)
    OUTPUT_IS_LIST = (True,)
    INPUTS = {"lines": ("STRING", {"multiline": True})}

    def run(self, lines):
        return (lines.splitlines(),)


class ProbeCacheKey(Node):
    """What the pack under test takes into the key of its disk cache."""

    OUTPUT_NODE = True
    RETURN_TYPES = ()
    CLASSES = ("CLIPLoader", "LoraLoader", "CLIPTextEncodeSD3", "ProbeEncoder",
               "HeadroomEncodeToCPU")

    def run(self):
        graph, node_types = (next(
            module for name, module in list(sys.modules.items())
            if name.replace("\\", "/").endswith(f"headroom.headroom.host.{wanted}")
        ) for wanted in ("graph", "node_types"))
        registry = node_types.HostRegistry()
        answer = {
            "numerics": graph.numerics(),
            "codes": {name: registry.class_info(name).code for name in self.CLASSES},
        }
        return {"ui": {"text": [json.dumps(answer)]}}


class ProbeExpand(Node):
    """Expands into a loader and an Encode to CPU node behind it."""

    RETURN_TYPES = ("CONDITIONING",)
    INPUTS = {"clip_name": ("STRING", {}), "text": ("STRING", {}),
              "cache": ("STRING", {})}

    def run(self, clip_name, text, cache):
        graph = GraphBuilder()
        loader = graph.node("ProbeEncoderFile", clip_name=clip_name, kind="sdxl")
        encode = graph.node(
            "HeadroomEncodeToCPU", clip=loader.out(0), text=text, split="one prompt",
            release_encoder=True, cache=cache,
        )
        return {"result": (encode.out(0),), "expand": graph.finalize()}


NODE_CLASS_MAPPINGS = {
    cls.__name__: cls
    for cls in (
        ProbeEncoder, ProbeEncoderFile, ProbeConditioning, ProbeTexts, ProbeExpand,
        ProbeCacheKey,
    )
}
