"""The classes of models of `recovery_cost`, and the prompts that it queues."""

from dataclasses import dataclass
from typing import Any

from tools.graph import Graph, add_checkpoint, add_guard, add_ksampler

Json = dict[str, Any]
TEXTS = ("a red cube on a table", "blurry")
TILING = {"overlap": 64, "temporal_size": 64, "temporal_overlap": 8}


@dataclass(frozen=True)
class Kind:
    """A class of models: its files, its usual picture (width, height, frames) and the batch."""

    files: tuple[str, ...]
    picture: tuple[int, int, int]
    batch: int = 1
    cfg: float = 4.0


KINDS = {
    "SD1.5": Kind(("checkpoints/v1-5-pruned-emaonly-fp16.safetensors",), (512, 512, 1), 8),
    "SDXL": Kind(("checkpoints/sd_xl_base_1.0.safetensors",), (1024, 1024, 1), 4),
    "Flux": Kind(("checkpoints/flux1-dev-fp8.safetensors",), (1024, 1024, 1), 1, 1.0),
    "Wan": Kind(("diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors",
                 "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors",
                 "vae/wan_2.1_vae.safetensors"), (832, 480, 33)),
}


@dataclass(frozen=True)
class Setting:
    """What a user can set by hand; each of the `parts` of the batch is a prompt of its own."""

    parts: int = 1
    tile: int | None = None
    encoder: str = "default"


AS_IT_COMES = Setting()


def prompt(
    kind: Kind, picture: tuple[int, int, int], batch: int, steps: int, seed: int,
    setting: Setting = AS_IT_COMES, guard: Json | None = None,
) -> Json:
    """Change everything but the files: another text and seed in every prompt.

    batch: before it is divided. guard: the options of OOM Guard on model, text encoder and VAE.
    """
    graph, batch = Graph(), batch // setting.parts
    model, clip, vae = loaded(graph, kind)
    if guard is not None:
        model, clip, vae = (add_guard(graph, part, **guard)[0] for part in (model, clip, vae))
    if setting.encoder != "default":
        clip = graph.add("SelectCLIPDevice", clip=clip, device=setting.encoder)[0]
    positive, negative = (
        graph.add("CLIPTextEncode", clip=clip, text=f"{text} {seed}") for text in TEXTS)
    width, height, frames = picture
    size = {"width": width, "height": height, "batch_size": batch}
    if frames > 1:
        latent = graph.add("EmptyHunyuanLatentVideo", **size, length=frames)
    else:
        latent = graph.add("EmptyLatentImage", **size)
    sampled = add_ksampler(graph, model, positive, negative, latent, seed=seed,
                           cfg=kind.cfg, steps=steps, scheduler="simple")
    tiles = {} if setting.tile is None else {"tile_size": setting.tile, **TILING}
    decoder = "VAEDecodeTiled" if tiles else "VAEDecode"
    graph.add("PreviewAny", source=graph.add(decoder, samples=sampled, vae=vae, **tiles))
    return graph.prompt


def loaded(graph: Graph, kind: Kind) -> tuple[Any, Any, Any]:
    """Model, text encoder and VAE of the class."""
    names = [file.rpartition("/")[2] for file in kind.files]
    if len(names) == 1:
        checkpoint = add_checkpoint(graph, names[0])
        return checkpoint[0], checkpoint[1], checkpoint[2]
    return (graph.add("UNETLoader", unet_name=names[0], weight_dtype="default")[0],
            graph.add("CLIPLoader", clip_name=names[1], type="wan")[0],
            graph.add("VAELoader", vae_name=names[2])[0])
