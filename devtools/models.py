"""Small model files with random weights, in formats that an unmodified ComfyUI loads.

They have the architecture, names and sizes that matter for memory; the pictures they make are
noise. Every weight is drawn from a seed of its own name, so the files are the same bits wherever
the same torch makes them, and whatever else is made with them.

Run as `python -m devtools.models FOLDER [NAME ...]` inside the environment.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import shapes_image, shapes_sd15
from .cache import cache_home
from .shapes_sd15 import Shape, Shapes, prefixed

if TYPE_CHECKING:
    import torch

RECIPE_VERSION = 1  # raise it when the values of the weights change without their shapes

DEMO_CHECKPOINT = "checkpoints/headroom_demo_sd15.safetensors"
DEMO_LORA = "loras/headroom_demo_lora.safetensors"
DEMO_CONTROLNET = "controlnet/headroom_demo_controlnet.safetensors"
DEMO_UPSCALER = "upscale_models/headroom_demo_upscale.safetensors"
TEST_CHECKPOINT = "checkpoints/headroom_test_sd15.safetensors"
TEST_CHECKPOINT_B = "checkpoints/headroom_test_sd15_b.safetensors"
TEST_CHECKPOINT_FP16 = "checkpoints/headroom_test_sd15_fp16.safetensors"
TEST_LORA = "loras/headroom_test_lora.safetensors"
TEST_CONTROLNET = "controlnet/headroom_test_controlnet.safetensors"
TAESD_ENCODER = "vae_approx/taesd_encoder.safetensors"
TAESD_DECODER = "vae_approx/taesd_decoder.safetensors"

DEMO_LEVELS = (1, 1)
TEST_LEVELS = (1,)
LORA_RANK = 4


@dataclass(frozen=True)
class Recipe:
    """One file: the shapes of its weights, the seed they are drawn from, and their number type."""

    shapes: Callable[[], Shapes]
    seed: int
    dtype: str = "bfloat16"


def _checkpoint(levels: tuple[int, ...], vae: Shapes) -> Shapes:
    return {
        **prefixed("model.diffusion_model.", shapes_sd15.unet(levels)),
        **prefixed("cond_stage_model.transformer.text_model.", shapes_sd15.clip_l()),
        **prefixed("first_stage_model.", vae),
    }


def _demo_checkpoint() -> Shapes:
    return _checkpoint(DEMO_LEVELS, shapes_image.vae())


def _test_checkpoint() -> Shapes:
    return _checkpoint(TEST_LEVELS, shapes_image.taesd())


RECIPES: dict[str, Recipe] = {
    DEMO_CHECKPOINT: Recipe(_demo_checkpoint, seed=1),
    DEMO_LORA: Recipe(lambda: shapes_sd15.lora(DEMO_LEVELS, LORA_RANK), seed=2),
    DEMO_CONTROLNET: Recipe(lambda: shapes_sd15.controlnet(DEMO_LEVELS), seed=3),
    DEMO_UPSCALER: Recipe(lambda: shapes_image.compact_upscaler(16, 2, 2), seed=4, dtype="float32"),
    TEST_CHECKPOINT: Recipe(_test_checkpoint, seed=5),
    TEST_CHECKPOINT_B: Recipe(_test_checkpoint, seed=6),
    TEST_CHECKPOINT_FP16: Recipe(_test_checkpoint, seed=11, dtype="float16"),
    TEST_LORA: Recipe(lambda: shapes_sd15.lora(TEST_LEVELS, LORA_RANK), seed=7),
    TEST_CONTROLNET: Recipe(lambda: shapes_sd15.controlnet(TEST_LEVELS), seed=8),
    TAESD_ENCODER: Recipe(shapes_image.taesd_encoder, seed=9),
    TAESD_DECODER: Recipe(shapes_image.taesd_decoder, seed=10),
}
DEMO_MODELS = (DEMO_CHECKPOINT, DEMO_LORA, DEMO_CONTROLNET, DEMO_UPSCALER)


def models_folder() -> Path:
    """Where the demo and the tests share these files; the name changes with the recipes."""
    return cache_home() / f"models-{recipes_key()}"


def recipes_key(recipes: Mapping[str, Recipe] = RECIPES) -> str:
    digest = hashlib.sha256(str(RECIPE_VERSION).encode())
    for name, recipe in recipes.items():
        digest.update(repr((name, recipe.seed, recipe.dtype, recipe.shapes())).encode())
    return digest.hexdigest()[:12]


def make_models(
    models_dir: Path,
    which: Iterable[str] | None = None,
    recipes: Mapping[str, Recipe] = RECIPES,
) -> dict[str, Path]:
    """Make the missing ones of the named files (default: all) and return the path of each.

    A file appears under its name only when it is complete. Needs torch and safetensors;
    the largest takes about 500 MB on disk, 1 GB of RAM and some seconds. OSError when a file
    cannot be written.
    """
    paths = {name: Path(models_dir) / name for name in (recipes if which is None else which)}
    for name, path in paths.items():
        if not path.exists():
            _make(path, recipes[name])
    return paths


def _make(path: Path, recipe: Recipe) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    dtype = getattr(torch, recipe.dtype)
    weights = {
        name: random_weight(name, shape, recipe.seed).to(dtype)
        for name, shape in recipe.shapes().items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        save_file(weights, str(partial))
        partial.replace(path)
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def random_weight(name: str, shape: Shape, seed: int) -> torch.Tensor:
    """Values that keep activations finite through a deep network; float32, on the CPU.

    Vectors are the identity of their layer (scale 1, bias 0), so that only matrices are random;
    those are normal with a variance of 1 / inputs.
    """
    import torch

    if len(shape) < 2:
        neutral = 0.0 if name.endswith((".bias", "vae_shift")) else 1.0
        if name.endswith(".alpha"):
            neutral = float(LORA_RANK)
        return torch.full(shape, neutral)
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
    spread = 1.0 / math.sqrt(math.prod(shape[1:]))
    if name.endswith("_embedding.weight"):
        spread = 0.02  # a table has no inputs; the width CLIP itself starts from
    return torch.randn(shape, generator=generator) * spread


def main() -> int:
    parser = argparse.ArgumentParser(description="Make small random-weight model files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    options = parser.parse_args()
    for name in make_models(options.folder, options.names or None):
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
