"""Published model files by their names: what is in them, made of ComfyUI's own classes.

Nothing here is read from a published file: names and shapes are those of ComfyUI's classes at the
published sizes (public_architectures.py), number types those that the files are known to have.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import models
from .errors import DevError
from .number_types import SCALED, stored
from .public_checkpoints import CHECKPOINTS
from .public_classes import Made, Part, one
from .public_heard import HEARD
from .public_ltx import LTX
from .public_ltx import SETTINGS as LTX_SETTINGS
from .public_pixels import PIXELS
from .public_seen import SEEN
from .public_single import SD3_LARGE, T5_XXL, single
from .public_wan import SETTINGS as WAN_SETTINGS
from .sparse_files import SparseFile, Weight
from .stand_in_tokenizers import TOKENIZERS

SETTINGS = {**WAN_SETTINGS, **LTX_SETTINGS}
SCRIPT = Path(__file__).with_name("public_architectures.py")
# Text encoders whose file contains their tokenizer, as a tensor of that name.
TOKENIZER: dict[Made, str] = {
    ("t5", "umt5_config_xxl"): "spiece_model", ("t5", "umt5_config_base"): "spiece_model",
    **dict.fromkeys([("llama", name) for name in (
        "Gemma2_2B", "Gemma3_4B", "Gemma3_4B_Vision", "Gemma3_12B")], "spiece_model"),
    **dict.fromkeys([("llama", name) for name in (
        "Gemma4_12B", "Gemma4_E2B", "Gemma4_E4B")], "tokenizer_json"),
    ("gpt_oss",): "tokenizer_json", ("llama", "XLMRobertaModel"): "spiece_model",
    ("llama", "T5GemmaModel"): "spiece_model",
    ("llama", "Mistral3Small24B"): "tekken_model", ("llama", "Ministral3_3B"): "tekken_model",
}


def sd15(dtype: str, inputs: int = 4) -> tuple[Part, ...]:
    return (Part("model.diffusion_model.", ("sd15_unet", inputs), dtype),
            Part("cond_stage_model.transformer.text_model.", ("clip_l",), dtype),
            Part("first_stage_model.", ("sd15_vae",), dtype))


def sdxl(dtype: str) -> tuple[Part, ...]:
    return (Part("model.diffusion_model.", ("sdxl_unet",), dtype),
            Part("conditioner.embedders.0.transformer.text_model.", ("clip_l",), dtype),
            Part("conditioner.embedders.1.model.", ("clip_g",), dtype),
            Part("first_stage_model.", ("sd15_vae",), dtype))


def sdxl_refiner(dtype: str) -> tuple[Part, ...]:
    return (Part("model.diffusion_model.", ("sdxl_refiner_unet",), dtype),
            Part("conditioner.embedders.0.model.", ("clip_g",), dtype),
            Part("first_stage_model.", ("sd15_vae",), dtype))


def flux_checkpoint(guidance: bool) -> tuple[Part, ...]:
    return (Part("model.diffusion_model.", ("flux", guidance), "F8_E4M3"),
            Part("text_encoders.clip_l.transformer.text_model.", ("clip_l",), "F16"),
            Part("text_encoders.t5xxl.transformer.", ("t5", "t5_config_xxl"), "F8_E4M3"),
            Part("vae.", ("flux_vae",), "F32"))


def sd3(made_by: tuple[Any, ...]) -> tuple[Part, ...]:
    """A checkpoint of Stable Diffusion 3.5 with its three text encoders."""
    return (Part("model.diffusion_model.", made_by, SCALED),
            Part("text_encoders.clip_l.transformer.", ("clip_text", "sd1_clip_config"), "F16"),
            Part("text_encoders.clip_g.transformer.", ("clip_text", "clip_config_bigg"), "F16"),
            Part("text_encoders.t5xxl.transformer.", T5_XXL, SCALED),
            Part("first_stage_model.", ("flux_vae",), "F16"))


PUBLIC: Mapping[str, tuple[Part, ...]] = {
    f"{name}.safetensors": parts for name, parts in {
        "checkpoints/v1-5-pruned-emaonly-fp16": sd15("F16"),
        "checkpoints/v1-5-pruned-emaonly": sd15("F32"),
        "checkpoints/DreamShaper_8_pruned": sd15("F16"),
        "checkpoints/dreamshaper_8": sd15("F16"),
        "checkpoints/512-inpainting-ema": sd15("F32", 9),
        "checkpoints/sd_xl_base_1.0": sdxl("F16"),
        "checkpoints/sd_xl_turbo_1.0_fp16": sdxl("F16"),
        "checkpoints/sd_xl_refiner_1.0": sdxl_refiner("F16"),
        "checkpoints/flux1-dev-fp8": flux_checkpoint(True),
        "checkpoints/flux1-schnell-fp8": flux_checkpoint(False),
        "checkpoints/sd3.5_large_fp8_scaled": sd3(SD3_LARGE),
        "text_encoders/clip_l": (Part("text_model.", ("clip_l",), "F16"),),
        **{f"checkpoints/{name}": parts for name, parts in CHECKPOINTS.items()}, **LTX,
        **SEEN, **HEARD, **PIXELS,
        **{place: one(made_by, dtype) for place, made_by, dtype in single()},
    }.items()
}

# Trained from another model, whose sizes they have.
FINE_TUNED = {
    "DreamShaper_8_pruned": "Stable Diffusion 1.5", "dreamshaper_8": "Stable Diffusion 1.5",
    "512-inpainting-ema": "Stable Diffusion 1.5", "flux1-krea-dev_fp8_scaled": "Flux.1 dev",
    "flux.1-fill-dev-OneReward-transformer_fp8": "Flux.1 Fill",
    "FireRed-Image-Edit-1.1-transformer": "Qwen-Image-Edit", "capybara_v0.1": "HunyuanVideo 1.5",
    "chrono_edit_14B_fp16": "Wan 2.1 I2V 14B", "Wan2_1-I2V-ATI-14B_fp8_e4m3fn": "Wan 2.1 I2V 14B",
    "Wan21-WanMove_fp8_scaled_e4m3fn_KJ": "Wan 2.1 I2V 14B",
    "wan2.2_bernini_r_high_noise_fp8_scaled": "Wan 2.2 T2V 14B",
    "wan2.2_bernini_r_low_noise_fp8_scaled": "Wan 2.2 T2V 14B",
    "causal_forcing-framewise": "Wan 2.1 T2V 1.3B", "lotus-depth-d-v1-1": "Stable Diffusion 2",
}


def origin(place: str) -> str:
    """Where the sizes of a published file come from, for the report."""
    base = FINE_TUNED.get(place.rpartition("/")[2].removesuffix(".safetensors"))
    return f"sizes of {base}, from which it was trained" if base else "published sizes"


def known(name: str) -> list[str]:
    """The places (folder/file) of published files of that name, which may have folders before it.
    """
    wanted = name.replace("\\", "/").rsplit("/", 1)[-1]
    return [place for place in PUBLIC if place.endswith(f"/{wanted}")]


def sparse_files(places: Iterable[str], ask: models.Ask) -> dict[str, SparseFile]:
    """These published files as a ComfyUI's classes have them, which `ask` reads.

    DevError where it has no such class.
    """
    places = list(places)
    parts = [{str(number): part.made_by for number, part in enumerate(PUBLIC[place])}
             for place in places]
    try:
        found = models.read_shapes(parts, ask=ask, joined="/") if places else []
    except DevError as error:
        raise DevError(f"This ComfyUI lacks the class of one of {', '.join(places)}; name a newer "
                       f"one with --comfyui ({str(error).splitlines()[-1]}).") from error
    return {place: _file(place, shapes) for place, shapes in zip(places, found, strict=True)}


def _file(place: str, shapes: Mapping[str, models.Shape]) -> SparseFile:
    weights: dict[str, Weight] = {}
    values: dict[str, bytes] = {}
    for number, part in enumerate(PUBLIC[place]):
        own = f"{number}/"
        made = stored(part.dtype, part.prefix, {
            key.removeprefix(own): shape for key, shape in shapes.items() if key.startswith(own)})
        weights |= made.weights
        values |= made.values
    for part in PUBLIC[place]:
        if kind := TOKENIZER.get(part.made_by[:2]):
            name = f"{part.prefix.partition('.')[0]}.{kind}" if part.prefix else kind
            values[name] = TOKENIZERS[kind]()
            weights[name] = Weight("U8", (len(values[name]),))
    config: dict[str, Any] = {}
    for part in PUBLIC[place]:
        config |= SETTINGS.get(part.made_by, {})
    return SparseFile(weights, values, {"config": json.dumps(config)} if config else {})
