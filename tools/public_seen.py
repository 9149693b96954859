"""Published files of models that look at pictures: masks, poses, depth, motion; by their names.

Like public_single.py; public_models.py joins it to the others.
"""

from typing import Any

from .public_classes import DIFFUSION, Made, Part, of, one

MOGE_WIDTHS = [1024, 256, 128, 64, 32]


def _moge_stack(inputs: list[int], outputs: int | None, blocks: int) -> dict[str, Any]:
    return {"dim_in": inputs, "dim_res_blocks": MOGE_WIDTHS, "dim_out": [None] * 4 + [outputs],
            "num_res_blocks": [0, blocks, blocks, blocks, 0], "res_block_in_norm": "none",
            "res_block_hidden_norm": "none", "resamplers": ["conv_transpose"] * 3 + ["bilinear"]}


def _moge() -> Made:
    """MoGe 2 with normals on DINOv2's large encoder, in ComfyUI's names of it."""
    dino = {"num_hidden_layers": 24, "use_swiglu_ffn": False, "hidden_size": 1024,
            "num_attention_heads": 16, "layer_norm_eps": 1e-6, "image_size": 518, "patch_size": 14}
    heads = {f"{name}_head": _moge_stack(MOGE_WIDTHS, width, 1)
             for name, width in (("points", 3), ("mask", 1), ("normal", 3))}
    return of("moge.model:MoGeModelV2", **heads, scale_head={"dims": [1024, 1024, 1]},
              encoder={"backbone": dino, "intermediate_layers": [5, 11, 17, 23], "dim_out": 1024},
              neck=_moge_stack([1026, 2, 2, 2, 2], None, 2))


SEEN: dict[str, tuple[Part, ...]] = {
    "checkpoints/sam3.1_multiplex_fp16": (
        Part("", of("sam3.detector:SAM3Model", image_model="SAM31"), "F16"),
        Part("detector.backbone.language_backbone.encoder.",
             ("open_clip", 1024, 24, 4096, 32, 512), "F16")),
    "checkpoints/sdpose_wholebody_fp16": (
        Part(DIFFUSION, ("lotus_unet", True), "F16"),
        Part("first_stage_model.", ("sd15_vae",), "F16")),
    "diffusion_models/rt_detr_v4-x-hgnet_fp16": one(of(
        "rt_detr.rtdetr_v4:RTv4", enc_h=384, enc_ff=2048), "F16"),
    "geometry_estimation/moge_2_vitl_normal_fp16": one(_moge(), "F16"),
    "background_removal/birefnet": one(of("comfy.background_removal.birefnet:BiRefNet"), "F16"),
    "optical_flow/raft_large_C_T_SKHT_V2-ff5fadd5": one(("raft_large",), "F32"),
    "frame_interpolation/film_net_fp16": one(of(
        "comfy_extras.frame_interpolation_models.film_net:FILMNet"), "F16"),
    "clip_vision/dino_v3_vit_h": one(("dino_3",), "F16"),
}
