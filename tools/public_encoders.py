"""Names and shapes of weights of published text and image encoders, by ComfyUI's own classes. Like
public_architectures.py, which imports them.
"""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from architectures import _built, _ops

Shapes = dict[str, tuple[int, ...]]


def _sizes(module: ModuleType, config: str) -> Any:
    """Read ComfyUI's file of that name beside a module of its own."""
    return json.loads(Path(str(module.__file__)).with_name(f"{config}.json").read_text())


def clip_vision(config: str) -> Shapes:
    """An image encoder; `config` is the name of ComfyUI's file with its sizes."""
    import comfy.clip_model as module

    return _built(module.CLIPVisionModelProjection(
        _sizes(module, config), None, *_ops().values()))


def dino_3() -> Shapes:
    """DINOv3's huge image encoder."""
    import comfy.image_encoders.dino3 as module

    return _built(module.DINOv3ViTModel(module.DINOV3_VITH_CONFIG, None, *_ops().values()))


def dino(config: str) -> Shapes:
    """A DINO image encoder; `config` is the name of ComfyUI's file with its sizes."""
    import comfy.image_encoders.dino2 as module

    return _built(module.Dinov2Model(_sizes(module, config), None, *_ops().values()))


def clip_g() -> Shapes:
    """OpenCLIP's bigG text encoder, as SDXL keeps it."""
    return {**open_clip(1280, 32, 5120, 77, 1280), "logit_scale": ()}


def open_clip(width: int, layers: int, hidden: int, positions: int, projected: int) -> Shapes:
    """A text encoder in the names of OpenCLIP's own checkpoints."""
    words = 49408
    shapes: Shapes = {
        "positional_embedding": (positions, width), "text_projection": (width, projected),
        "token_embedding.weight": (words, width),
        "ln_final.weight": (width,), "ln_final.bias": (width,),
    }
    block = {
        "attn.in_proj_weight": (3 * width, width), "attn.in_proj_bias": (3 * width,),
        "attn.out_proj.weight": (width, width), "attn.out_proj.bias": (width,),
        "mlp.c_fc.weight": (hidden, width), "mlp.c_fc.bias": (hidden,),
        "mlp.c_proj.weight": (width, hidden), "mlp.c_proj.bias": (width,),
        "ln_1.weight": (width,), "ln_1.bias": (width,),
        "ln_2.weight": (width,), "ln_2.bias": (width,),
    }
    for layer in range(layers):
        shapes |= {f"transformer.resblocks.{layer}.{name}": shape for name, shape in block.items()}
    return shapes


def t5(config: str) -> Shapes:
    """A T5-class encoder; `config` is the name of ComfyUI's file with its sizes."""
    import comfy.text_encoders.t5 as module

    return _built(module.T5(_sizes(module, config), None, **_ops()))


def llama(name: str, layers: int = 0, module: str = "llama", words: int = 0) -> Shapes:
    """A language model of ComfyUI's text encoders, by its class.

    `layers`, `words`: how many it has, where not as many as the class says.
    """
    kind = getattr(importlib.import_module(f"comfy.text_encoders.{module}"), name)
    sizes = {"num_hidden_layers": layers, "vocab_size": words}
    given = {key: size for key, size in sizes.items() if size}
    return _built(kind(given, None, **_ops()))


def gpt_oss() -> Shapes:
    """OpenAI's gpt-oss of 20 billion weights; its experts lie in one tensor a layer."""
    import comfy.text_encoders.gpt_oss as module
    import torch

    class Layers(_ops()["operations"]):  # type: ignore[misc]
        @staticmethod
        def MoEExperts(**_sizes: object) -> torch.nn.Module:  # noqa: N802
            return torch.nn.Identity()

    sizes = module.GptOss20BConfig()
    made = _built(module.GptOssModel(sizes, device="meta", dtype=None, ops=Layers))
    width, experts = sizes.hidden_size, sizes.num_local_experts
    for layer in range(sizes.num_hidden_layers):
        for name, outputs, inputs in (("gate_up_proj", 2 * sizes.intermediate_size, width),
                                      ("down_proj", width, sizes.intermediate_size)):
            bank = f"layers.{layer}.mlp.experts.{name}"
            made |= {f"{bank}.weight": (experts, outputs, inputs),
                     f"{bank}.bias": (experts, outputs)}
    return made


def qwen3_vl(kind: str, module: str = "qwen3vl", name: str = "Qwen3VL") -> Shapes:
    """Qwen3-VL, or Qwen3.5, of one size, in the names of its own files."""
    base = getattr(importlib.import_module(f"comfy.text_encoders.{module}"), name)
    model = type(kind, (base,), {"model_type": kind})
    made = _built(model({}, None, **_ops()))
    return {name.replace("model.", "model.language_model.", 1) if name.startswith("model.")
            else f"model.{name}": shape for name, shape in made.items()}


def clip_text(config: str, positions: int = 77) -> Shapes:
    """A CLIP text encoder; `config` is the name of ComfyUI's file with its sizes."""
    import comfy.clip_model as module

    shapes = _built(module.CLIPTextModel(_sizes(module, config), None, **_ops()))
    table = "text_model.embeddings.position_embedding.weight"
    return {**shapes, table: (positions, *shapes[table][1:])}
