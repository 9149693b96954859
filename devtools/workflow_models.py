"""Small random-weight model files under the very names that the bundled workflows ask for.

Class and layer widths are those of the published models wherever ComfyUI fixes them; the depth is
reduced. Text encoders of the T5-XXL and Qwen classes have no small form: those loaders are
swapped (see `swap_text_encoder`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import models, shapes_flux, shapes_image, shapes_sd15, shapes_sdxl, shapes_wan
from .cache import cache_home
from .canvas import ModelFile
from .models import Recipe
from .shapes_sd15 import Shapes, prefixed
from .workflows import files

SD15_LEVELS = (1, 1)
LARGE_ENCODERS = (files.UMT5, files.QWEN, files.CLIP_L, files.T5)  # files that hold one number
SMALL_ENCODER = "SmallTextEncoder"  # a node of tests/host/packs/headroom_small_encoders


def _sd15() -> Shapes:
    return {
        **prefixed("model.diffusion_model.", shapes_sd15.unet(SD15_LEVELS)),
        **prefixed("cond_stage_model.transformer.text_model.", shapes_sd15.clip_l()),
        **prefixed("first_stage_model.", shapes_image.vae()),
    }


def _sdxl() -> Shapes:
    return {
        **prefixed("model.diffusion_model.", shapes_sdxl.unet()),
        **prefixed("first_stage_model.", shapes_image.vae()),
    }


def _flux_vae() -> Shapes:
    """The VAE of SD1.5 with the 16 latent channels of Flux, and without its two 1x1 layers."""
    shapes = {n: s for n, s in shapes_image.vae().items() if "quant_conv" not in n}
    latent = shapes_flux.LATENT // 4
    for name, position, width in (
        ("encoder.conv_out.weight", 0, 2 * latent),
        ("encoder.conv_out.bias", 0, 2 * latent),
        ("decoder.conv_in.weight", 1, latent),
    ):
        shape = list(shapes[name])
        shape[position] = width
        shapes[name] = tuple(shape)
    return shapes


def _path(file: ModelFile) -> str:
    return f"{file.directory}/{file.name}"


RECIPES: dict[str, Recipe] = {
    _path(files.SD15): Recipe(_sd15, seed=21, dtype="float16"),
    _path(files.SD15_CANNY): Recipe(
        lambda: shapes_sd15.controlnet(SD15_LEVELS), seed=22, dtype="float16"
    ),
    _path(files.SDXL): Recipe(_sdxl, seed=23, dtype="float16"),
    _path(files.WAN_T2V): Recipe(
        lambda: shapes_wan.text_to_video(heads=4, layers=4), seed=24, dtype="float16"
    ),
    _path(files.WAN_VAE): Recipe(lambda: shapes_wan.vae(32), seed=25),
    _path(files.FLUX): Recipe(lambda: shapes_flux.transformer(1), seed=26),
    _path(files.FLUX_CANNY): Recipe(lambda: shapes_flux.controlnet(1), seed=27),
    _path(files.FLUX_VAE): Recipe(_flux_vae, seed=28, dtype="float32"),
    **{_path(file): Recipe(lambda: {"stand_in": (1,)}, seed=0) for file in LARGE_ENCODERS},
}


def make_workflow_models() -> Path:
    """Make the missing files in their shared folder and return it; 2.8 GB on disk in all."""
    folder = cache_home() / f"workflow-models-{models.recipes_key(RECIPES)}"
    models.make_models(folder, recipes=RECIPES)
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


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(make_workflow_models())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
