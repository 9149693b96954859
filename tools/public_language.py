"""Published files of language models that ComfyUI encodes, or writes, text with; by their names.

Like public_newer.py; public_models.py joins it to the others.
"""

from .number_types import INT8, NVFP4, SCALED
from .public_classes import Part, one

LANGUAGE: dict[str, tuple[Part, ...]] = {
    f"text_encoders/{name}": one(made_by, dtype) for name, (made_by, dtype) in {
        "gemma4_e2b_it_int8_convrot": (("llama", "Gemma4_E2B", 0, "gemma4"), INT8),
        "gemma4_e4b_it_fp8_scaled": (("llama", "Gemma4_E4B", 0, "gemma4"), SCALED),
        "gpt_oss_20b_nvfp4": (("gpt_oss",), NVFP4),
        "jina_clip_v2_bf16": (("llama", "XLMRobertaModel", 0, "jina_clip_2"), "BF16"),
        "qwen3vl_32b_minimax_h3_nvfp4_awq": (("llama", "MiniMaxQwen3VL", 0, "minimax"), NVFP4),
        "qwen3.5_2b_bf16": (("qwen3_vl", "qwen35_2b", "qwen35", "Qwen35"), "BF16"),
        "t5gemma_b_b_ul2": (("llama", "T5GemmaModel", 0, "sa3"), "BF16"),
    }.items()
}
