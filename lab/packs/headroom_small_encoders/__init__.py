"""Text encoders with the outputs of the large published ones, and lists for stock comparisons.

T5-XXL, umT5-XXL, Qwen2.5-VL and CLIP-G have billions of weights that ComfyUI builds from a fixed
configuration. `SmallTextEncoder` builds ComfyUI's own T5 and CLIP classes as wide as those but
only one to three layers deep, with random weights.
"""

import runpy
from pathlib import Path

import comfy.sd1_clip
import comfy.sdxl_clip
import comfy.text_encoders.flux
import comfy.text_encoders.sd3_clip
import folder_paths
import torch

PACKS = Path(__file__).resolve().parents[1]
random_clip = runpy.run_path(str(PACKS / "random_weights.py"))["random_clip"]
Node = runpy.run_path(str(PACKS / "node.py"))["Node"]


def t5(width):
    return {"t5xxl_model_config": {"d_model": width, "d_ff": 256, "d_kv": 64, "num_heads": 4,
                                   "num_layers": 1}}


CLIP_L = {"hidden_size": 768, "intermediate_size": 256, "num_attention_heads": 12,
          "num_hidden_layers": 3}
CLIP_G = {**CLIP_L, "hidden_size": 1280, "num_attention_heads": 20, "projection_dim": 1280}


class WanTokens(comfy.text_encoders.sd3_clip.T5XXLTokenizer):
    """Wan pads every prompt to 512 tokens."""

    def __init__(self, embedding_directory=None, tokenizer_data=None):
        super().__init__(embedding_directory=embedding_directory,
                         tokenizer_data=tokenizer_data or {}, min_length=512)


class T5Tokenizer(comfy.sd1_clip.SD1Tokenizer):
    def __init__(self, embedding_directory=None, tokenizer_data=None):
        super().__init__(embedding_directory=embedding_directory,
                         tokenizer_data=tokenizer_data or {}, clip_name="t5xxl",
                         tokenizer=WanTokens)


class T5Model(comfy.sd1_clip.SD1ClipModel):
    def __init__(self, device="cpu", dtype=None, model_options=None):
        super().__init__(device=device, dtype=dtype, model_options=model_options or {},
                         name="t5xxl", clip_model=comfy.text_encoders.sd3_clip.T5XXLModel)


KINDS = {
    "wan": (T5Model, T5Tokenizer, t5(4096)),
    "qwen": (T5Model, T5Tokenizer, t5(3584)),
    "flux": (comfy.text_encoders.flux.flux_clip(), comfy.text_encoders.flux.FluxTokenizer,
             {**t5(4096), "clip_l_model_config": CLIP_L}),
    "sd3": (comfy.text_encoders.sd3_clip.sd3_clip(clip_g=False, t5=False),
            comfy.text_encoders.sd3_clip.SD3Tokenizer, {"clip_l_model_config": CLIP_L}),
    "sdxl": (comfy.sdxl_clip.SDXLClipModel, comfy.sdxl_clip.SDXLTokenizer,
             {"clip_l_model_config": CLIP_L, "clip_g_model_config": CLIP_G}),
}


class SmallTextEncoder(Node):
    """The text encoder that a workflow's own loader would give, a few layers deep."""

    RETURN_TYPES = ("CLIP",)
    INPUTS, OPTIONAL = {"kind": (list(KINDS),)}, {"clip_name": ("STRING", {"default": ""})}

    def run(self, kind, clip_name=""):
        if clip_name:  # the file stands for the weights: without it the loader would fail too
            folder_paths.get_full_path_or_raise("text_encoders", clip_name)
        clip = small_encoder(kind)
        if hasattr(clip.patcher, "cached_patcher_init"):  # what a loader leaves: how to read again
            clip.patcher.cached_patcher_init = (patcher_again, (kind,))
        return (clip,)


def small_encoder(kind, **options):
    model, tokenizer, sizes = KINDS[kind]
    return random_clip(model, tokenizer, {**sizes, "dtype": torch.bfloat16}, 150_000_000,
                       most_rows=256, **options)


def patcher_again(kind, disable_dynamic=False):
    return small_encoder(kind, disable_dynamic=disable_dynamic).patcher


class PlainLines(Node):
    """The lines of a text as a list: what a script's loop over prompts would be."""

    RETURN_TYPES = ("STRING",)
    OUTPUT_IS_LIST = (True,)
    INPUTS = {"text": ("STRING", {"multiline": True})}

    def run(self, text):
        return ([line for line in text.splitlines() if line.strip()],)


class PlainSizes(Node):
    """Sizes as two lists, in the order given: one `WIDTHxHEIGHT` a line."""

    RETURN_TYPES = ("INT", "INT")
    OUTPUT_IS_LIST = (True, True)
    INPUTS = {"text": ("STRING", {"multiline": True})}

    def run(self, text):
        sizes = [tuple(int(side) for side in line.split("x")) for line in text.splitlines()]
        return ([width for width, _ in sizes], [height for _, height in sizes])


NODE_CLASS_MAPPINGS = {cls.__name__: cls for cls in (SmallTextEncoder, PlainLines, PlainSizes)}
