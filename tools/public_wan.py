"""Published files of Wan's video models and of what was made of them, by their names.

Like public_single.py, which imports it.
"""

from typing import Any

from .number_types import INT8, SCALED
from .public_classes import Made, of


def _wan(name: str, kind: str, inputs: int = 16, size: str = "14B", **more: Any) -> Made:
    width, heads, layers, hidden = {"14B": (5120, 40, 40, 13824), "1.3B": (1536, 12, 30, 8960),
                                    "5B": (3072, 24, 30, 14336)}[size]
    return of(f"wan.{name}", model_type=kind, dim=width, ffn_dim=hidden, num_heads=heads,
              num_layers=layers, in_dim=inputs, **more)


WAN, CAMERA = "model:WanModel", "model:CameraWanModel"
ANIMATE_2 = of("wan.model_animate2:WanAnimate2Model")
CAUSAL = _wan("ar_model:CausalWanModel", "t2v", size="1.3B")
# What ComfyUI reads of a file beside its weights.
SETTINGS: dict[Made, dict[str, Any]] = {
    ANIMATE_2: {"transformer": {"model_type": "animate2"}},
    CAUSAL: {"transformer": {"causal_ar": True}}}
WAN_VIDEO: list[tuple[Made, dict[str, str]]] = [
    (_wan(WAN, "t2v", 48, "5B", out_dim=48), {"F16": "wan2.2_ti2v_5B_fp16"}),
    (_wan(WAN, "t2v", 148, "5B", out_dim=48, in_dim_ref_conv=48),
     {"BF16": "wan2.2_fun_control_5B_bf16"}),
    (_wan(WAN, "t2v", 100, "5B", out_dim=48), {"BF16": "wan2.2_fun_inpaint_5B_bf16"}),
    (_wan(WAN, "t2v", size="1.3B"), {"F16": "wan2.1_t2v_1.3B_fp16"}),
    (_wan(WAN, "i2v", 36, "1.3B"), {"BF16": "wan2.1_fun_inp_1.3B_bf16"}),
    (_wan(WAN, "i2v", 48, "1.3B", in_dim_ref_conv=16),
     {"BF16": "wan2.1_fun_control_1.3B_bf16"}),
    (_wan(CAMERA, "camera", 32, "1.3B"), {"BF16": "wan2.1_fun_camera_v1.1_1.3B_bf16"}),
    (_wan(CAMERA, "camera", 32), {"BF16": "wan2.1_fun_camera_v1.1_14B_bf16"}),
    (_wan(CAMERA, "camera_2.2", 36),
     {SCALED: "wan2.2_fun_camera_high_noise_14B_fp8_scaled "
             "wan2.2_fun_camera_low_noise_14B_fp8_scaled"}),
    (_wan(WAN, "t2v", 52, in_dim_ref_conv=16),
     {SCALED: "wan2.2_fun_control_high_noise_14B_fp8_scaled "
             "wan2.2_fun_control_low_noise_14B_fp8_scaled"}),
    (_wan(WAN, "t2v", 36), {SCALED: "wan2.2_fun_inpaint_high_noise_14B_fp8_scaled "
                                   "wan2.2_fun_inpaint_low_noise_14B_fp8_scaled "
                                   "wan2.2_i2v_high_noise_14B_fp8_scaled "
                                   "wan2.2_i2v_low_noise_14B_fp8_scaled"}),
    (_wan(WAN, "t2v"), {SCALED: "wan2.2_bernini_r_high_noise_fp8_scaled "
                               "wan2.2_bernini_r_low_noise_fp8_scaled wan2.1_t2v_14B_fp8_scaled "
                               "wan2.2_t2v_high_noise_14B_fp8_scaled "
                               "wan2.2_t2v_low_noise_14B_fp8_scaled",
                        "F8_E4M3": "wan2.1_t2v_14B_fp8_e4m3fn"}),
    (CAUSAL, {"F32": "causal_forcing-framewise"}),
    (_wan(WAN, "i2v", 36),
     {"F16": "chrono_edit_14B_fp16 wan2.1_i2v_480p_14B_fp16",
      "F8_E4M3": "Wan2_1-I2V-ATI-14B_fp8_e4m3fn",
      SCALED: "Wan2_1-I2V-14B-480p_fp8_e4m3fn_scaled_KJ Wan21-WanMove_fp8_scaled_e4m3fn_KJ"}),
    (_wan(WAN, "i2v", 36, flf_pos_embed_token_number=514), {"F16": "wan2.1_flf2v_720p_14B_fp16"}),
    (_wan("model:VaceWanModel", "vace", vace_layers=8, vace_in_dim=96),
     {"F16": "wan2.1_vace_14B_fp16"}),
    (_wan("model:WanModel_S2V", "s2v"), {SCALED: "wan2.2_s2v_14B_fp8_scaled"}),
    (_wan("model:HumoWanModel", "humo", 36), {"F8_E4M3": "humo_17B_fp8_e4m3fn"}),
    (_wan("model:SCAIL2WanModel", "scail2", 20), {"F16": "wan2.1_14B_SCAIL_2_fp16",
                                                  INT8: "wan2.1_14B_SCAIL_2_int8_convrot"}),
    (ANIMATE_2, {INT8: "wan_animate_2_int8_convrot wan_animate_2_distill_int8_convrot"}),
    (_wan("model_wandancer:WanDancerModel", "wandancer", 36),
     {SCALED: "wan2.2_dancer_14b_global_fp8_scaled wan2.2_dancer_14b_local_fp8_scaled"}),
]
