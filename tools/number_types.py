"""How a weight lies in a published file of each number type: its tensors, and the bytes of some."""

import json
from collections.abc import Mapping

from .sparse_files import Shape, SparseFile, Weight

SCALED = "fp8 scaled"  # layers in float8 with a scale each, everything else in float16
SCALED_BF16 = "fp8 scaled, bfloat16"  # the same with everything else in bfloat16
INT8 = "int8 rotated"  # layers in int8 with a scale a row, everything else in bfloat16
NVFP4 = "fp4"  # layers in four bits with a scale for 16 inputs, everything else in bfloat16
OTHERS = {SCALED: "F16", SCALED_BF16: "BF16", INT8: "BF16", NVFP4: "BF16"}
MARK = "scaled_fp8"
KEPT = ("shared", "embed_tokens.", "visual.", "vision_model.", "multi_modal_projector.",
        "relative_attention_bias", "embeddings_connector.", "adaln_single.", "router.")  # never so
EXPERTS = ".experts."
LEAST_SIDE = 16  # of a layer: narrower ones are tables, such as those of modulations
FP8_SIDE = 16  # what both sides of a float8 layer are multiples of: its kernels take no others
ROTATED = 256  # inputs that are rotated together
BLOCK = 16  # inputs that share a scale; scales lie in tiles of TILE
TILE = (128, 4)


def stored(dtype: str, prefix: str, shapes: Mapping[str, Shape]) -> SparseFile:
    """The weights of these shapes, by their names after `prefix`, as a file of that type has them.
    """
    weights: dict[str, Weight] = {}
    values: dict[str, bytes] = {}
    for name, shape in shapes.items():
        full = prefix + name
        if dtype in (SCALED, SCALED_BF16) and _is_layer(name, shape) and not any(
                side % FP8_SIDE for side in shape):
            weights[full] = Weight("F8_E4M3", shape)
            weights[full.removesuffix("weight") + "scale_weight"] = Weight("F32", ())
        elif dtype == INT8 and _is_layer(name, shape):
            quant = full.removesuffix("weight") + "comfy_quant"
            values[quant] = _settings(shape)
            weights |= {full: Weight("I8", shape), f"{full}_scale": Weight("F32", (shape[0], 1)),
                        quant: Weight("U8", (len(values[quant]),))}
        elif dtype == NVFP4 and _is_layer(name, shape) and not any(
                side % BLOCK for side in shape[-2:]):
            quant = full.removesuffix("weight") + "comfy_quant"
            *experts, outputs, inputs = shape
            values[quant] = json.dumps({"format": "nvfp4", **(
                {"num_experts": experts[0]} if experts else {})}).encode()
            scales = (*experts, _up(outputs, TILE[0]), _up(inputs // BLOCK, TILE[1]))
            weights |= {full: Weight("U8", (*experts, outputs, inputs // 2)),
                        f"{full}_scale": Weight("F8_E4M3", scales),
                        f"{full}_scale_2": Weight("F32", tuple(experts)),
                        quant: Weight("U8", (len(values[quant]),))}
        else:
            weights[full] = Weight(OTHERS.get(dtype, dtype), shape)
    if dtype in (SCALED, SCALED_BF16):
        weights[prefix + MARK] = Weight("F8_E4M3", (0,))
    return SparseFile(weights, values)


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


def _settings(shape: Shape) -> bytes:
    rotated = {"convrot": True, "convrot_groupsize": ROTATED} if shape[1] % ROTATED == 0 else {}
    return json.dumps({"format": "int8_tensorwise", **rotated}).encode()


def _is_layer(name: str, shape: Shape) -> bool:
    banked = len(shape) == 3 and EXPERTS in name  # the layers of all experts in one tensor
    return (name.endswith(".weight") and (len(shape) == 2 or banked) and "norm" not in name
            and min(shape[-2:]) >= LEAST_SIDE and not any(word in name for word in KEPT))
