"""Small model files with random weights, in formats that an unmodified ComfyUI loads.

They have the architecture, names and sizes that matter for memory; the pictures they make are
noise. Every weight is drawn from a seed of its own name, so the files are the same bits wherever
the same torch makes them, and whatever else is made with them.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cache import cache_home
from .comfyui import locate_comfyui
from .errors import DevError

if TYPE_CHECKING:
    import torch

RECIPE_VERSION = 2  # raise it when names, shapes or values of the weights change

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

DEMO_LEVELS, TEST_LEVELS = 2, 1
LORA_RANK = 4
ARCHITECTURES = Path(__file__).with_name("architectures.py")
Part = tuple[Any, ...]  # a function of `architectures.py` and its arguments
Parts = Mapping[str, Part]
Shape = tuple[int, ...]
Ask = Callable[[Sequence[Part]], list[dict[str, Any]]]  # the weights' shapes of each, by name


@dataclass(frozen=True)
class Recipe:
    """One file: what is in it, the seed its weights are drawn from, and their number type.

    `parts`: for each prefix of names a function of `architectures.py` and its arguments.
    """

    parts: Parts
    seed: int
    dtype: str = "bfloat16"


def checkpoint(levels: int, *vae: Any) -> Parts:
    """An SD1.5-class checkpoint."""
    return {
        "model.diffusion_model.": ("sd15_unet", levels),
        "cond_stage_model.transformer.text_model.": ("clip_l",),
        "first_stage_model.": vae,
    }


RECIPES: dict[str, Recipe] = {
    DEMO_CHECKPOINT: Recipe(checkpoint(DEMO_LEVELS, "sd15_vae"), seed=1),
    DEMO_LORA: Recipe({"": ("sd15_lora", DEMO_LEVELS, LORA_RANK)}, seed=2),
    DEMO_CONTROLNET: Recipe({"": ("sd15_controlnet", DEMO_LEVELS)}, seed=3),
    DEMO_UPSCALER: Recipe({"": ("compact_upscaler", 16, 2, 2)}, seed=4, dtype="float32"),
    TEST_CHECKPOINT: Recipe(checkpoint(TEST_LEVELS, "taesd"), seed=5),
    TEST_CHECKPOINT_B: Recipe(checkpoint(TEST_LEVELS, "taesd"), seed=6),
    TEST_CHECKPOINT_FP16: Recipe(checkpoint(TEST_LEVELS, "taesd"), seed=11, dtype="float16"),
    TEST_LORA: Recipe({"": ("sd15_lora", TEST_LEVELS, LORA_RANK)}, seed=7),
    TEST_CONTROLNET: Recipe({"": ("sd15_controlnet", TEST_LEVELS)}, seed=8),
    TAESD_ENCODER: Recipe({"": ("taesd", "taesd_encoder.")}, seed=9),
    TAESD_DECODER: Recipe({"": ("taesd", "taesd_decoder.")}, seed=10),
}
DEMO_MODELS = (DEMO_CHECKPOINT, DEMO_LORA, DEMO_CONTROLNET, DEMO_UPSCALER)


def models_folder() -> Path:
    """Where the demo and the tests share these files; the name changes with the recipes."""
    return cache_home() / f"models-{recipes_key()}"


def recipes_key(recipes: Mapping[str, Recipe] = RECIPES) -> str:
    return hashlib.sha256(repr((RECIPE_VERSION, recipes)).encode()).hexdigest()[:12]


def make_models(
    models_dir: Path,
    which: Iterable[str] | None = None,
    recipes: Mapping[str, Recipe] = RECIPES,
    comfyui: str | Path | None = None,
) -> dict[str, Path]:
    """Make the missing ones of the named files (default: all) and return the path of each.

    A file appears under its name only when it is complete. Needs torch, safetensors and a
    ComfyUI tree (default: COMFYUI_PATH or 0.3.75), which names the weights; the largest takes about
    500 MB on disk, 1 GB of RAM and some seconds. OSError when a file cannot be written.
    """
    paths = {name: Path(models_dir) / name for name in (recipes if which is None else which)}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        all_shapes = read_shapes([recipes[name].parts for name in missing], comfyui)
        for name, shapes in zip(missing, all_shapes, strict=True):
            _make(paths[name], recipes[name], shapes)
    return paths


def read_shapes(
    several: Iterable[Parts], comfyui: str | Path | None = None, ask: Ask | None = None,
    joined: str = "",
) -> list[dict[str, Shape]]:
    """The shape of every weight of these files by its name, as ComfyUI's own classes have them.

    `ask` knows the architectures; `joined` stands between a part's prefix and a weight's name.
    """
    several = list(several)
    wanted = list(dict.fromkeys(part for parts in several for part in parts.values()))
    ask = ask or asking(comfyui)
    known = dict(zip(wanted, ask(wanted), strict=True))
    return [
        {prefix + joined + name: tuple(shape) for prefix, part in parts.items()
         for name, shape in known[part].items()}
        for parts in several
    ]


def asking(comfyui: str | Path | None, script: Path = ARCHITECTURES) -> Ask:
    """Ask a process that imports ComfyUI, some 5 s; DevError with its words when it fails."""
    def ask(wanted: Sequence[Part]) -> list[dict[str, Any]]:
        tree = locate_comfyui(comfyui)
        command = [sys.executable, str(script), str(tree), json.dumps(list(wanted))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise DevError(f"{tree} could not name its models' weights:\n{done.stderr[-2000:]}")
        return list(json.loads(done.stdout.splitlines()[-1]))

    return ask


def _make(path: Path, recipe: Recipe, shapes: Mapping[str, Shape]) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    dtype = getattr(torch, recipe.dtype)
    weights = {
        name: random_weight(name, shape, recipe.seed).to(dtype)
        for name, shape in shapes.items()
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


def random_weight(name: str, shape: Shape, seed: int) -> "torch.Tensor":
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
