"""Small random-weight model files under the very names that the bundled workflows ask for.

Class and layer widths are those of the published models wherever ComfyUI fixes them; the depth is
reduced. Text encoders of the T5-XXL and Qwen classes have no small form: those loaders are
swapped (see `swap_text_encoder`).
"""

from pathlib import Path
from typing import Any

from . import models
from .cache import cache_home
from .models import Recipe, checkpoint

SD15_LEVELS = 2
LARGE_ENCODERS = (  # files with one number
    "umt5_xxl_fp8_e4m3fn_scaled", "qwen_2.5_vl_7b_fp8_scaled", "clip_l", "t5xxl_fp16",
)
SMALL_ENCODER = "SmallTextEncoder"  # a node of lab/packs/headroom_small_encoders
SDXL = {"model.diffusion_model.": ("sdxl_unet",), "first_stage_model.": ("sd15_vae",)}


RECIPES: dict[str, Recipe] = {
    f"{file}.safetensors": Recipe(parts, seed, dtype) for file, parts, seed, dtype in (
        ("checkpoints/v1-5-pruned-emaonly-fp16",
         checkpoint(SD15_LEVELS, "sd15_vae"), 21, "float16"),
        ("controlnet/control_v11p_sd15_canny_fp16",
         {"": ("sd15_controlnet", SD15_LEVELS)}, 22, "float16"),
        ("checkpoints/sd_xl_base_1.0", SDXL, 23, "float16"),
        ("diffusion_models/wan2.1_t2v_1.3B_fp16", {"": ("wan", 4, 4)}, 24, "float16"),
        ("vae/wan_2.1_vae", {"": ("wan_vae", 32)}, 25, "bfloat16"),
        ("diffusion_models/flux1-dev", {"": ("flux", 1)}, 26, "bfloat16"),
        ("controlnet/flux-canny-controlnet-v3", {"": ("flux_controlnet", 1)}, 27, "bfloat16"),
        ("vae/ae", {"": ("flux_vae",)}, 28, "float32"),
        *((f"text_encoders/{name}", {"": ("one_number",)}, 0, "bfloat16")
          for name in LARGE_ENCODERS),
    )
}


def make_workflow_models(comfyui: str | Path | None = None) -> Path:
    """Make the missing files in their shared folder and return it; 2.8 GB on disk in all."""
    folder = cache_home() / f"workflow-models-{models.recipes_key(RECIPES)}"
    models.make_models(folder, recipes=RECIPES, comfyui=comfyui)
    return folder


def swap_text_encoder(prompt: dict[str, Any], kind: str) -> dict[str, Any]:
    """The prompt with its text-encoder loader replaced by a small encoder of the same output.

    A loader that gives more than a text encoder (a checkpoint) stays; only that wire is moved.
    """
    if any(node["class_type"].endswith("CLIPLoader") for node in prompt.values()):
        return {
            key: _small_encoder(kind, node["inputs"])
            if node["class_type"].endswith("CLIPLoader") else node
            for key, node in prompt.items()
        }
    moved = {
        key: {**node, "inputs": {name: ["encoder", 0] if name == "clip" else value
                                 for name, value in node["inputs"].items()}}
        for key, node in prompt.items()
    }
    return {**moved, "encoder": _small_encoder(kind, {})}


def _small_encoder(kind: str, loader: dict[str, Any]) -> dict[str, Any]:
    """The stand-in; it names the loader's file, so that a cache can tell encoders apart."""
    name = loader.get("clip_name", loader.get("clip_name1", ""))
    return {"class_type": SMALL_ENCODER, "inputs": {"kind": kind, "clip_name": name}}
