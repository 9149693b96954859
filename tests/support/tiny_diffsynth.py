"""DiffSynth's own Wan pipeline with tiny random components, built without any download."""

import torch

from .tiny_diffusers import tokenizer_in

VOCABULARY = 64
WIDTH = 64
TOKENS = 512  # as the published pipeline pads every prompt


def pipeline_in(folder, device="cuda"):
    """A WanVideoPipeline whose text encoder and video model hold about 1 MiB together."""
    from diffsynth.models.wan_video_dit import WanModel
    from diffsynth.models.wan_video_text_encoder import HuggingfaceTokenizer, WanTextEncoder
    from diffsynth.pipelines.wan_video import WanVideoPipeline

    torch.manual_seed(0)
    tokenizer, _ = tokenizer_in(folder)
    tokenizer.save_pretrained(folder)
    pipeline = WanVideoPipeline(device=device, torch_dtype=torch.float32)
    pipeline.tokenizer = HuggingfaceTokenizer(str(folder), seq_len=TOKENS, clean="whitespace")
    pipeline.text_encoder = WanTextEncoder(
        vocab=VOCABULARY, dim=WIDTH, dim_attn=WIDTH, dim_ffn=WIDTH * 2, num_heads=4, num_layers=2
    ).eval()
    pipeline.dit = WanModel(
        dim=WIDTH, in_dim=16, ffn_dim=WIDTH * 2, out_dim=16, text_dim=WIDTH, freq_dim=32, eps=1e-6,
        patch_size=(1, 2, 2), num_heads=4, num_layers=2, has_image_input=False,
    ).eval()
    return pipeline


def manage_memory(pipeline):
    """DiffSynth's own memory management: a model is on the device from its use to the next's."""
    from diffsynth.core.vram import AutoWrappedLinear, AutoWrappedModule, enable_vram_management
    from diffsynth.models.wan_video_text_encoder import T5LayerNorm, T5RelativeEmbedding

    whole = (torch.nn.Embedding, T5RelativeEmbedding, T5LayerNorm)
    wrapped = {torch.nn.Linear: AutoWrappedLinear, **dict.fromkeys(whole, AutoWrappedModule)}
    places = {"offload": "cpu", "onload": "cuda", "preparing": "cuda", "computation": "cuda"}
    config = {f"{state}_device": place for state, place in places.items()}
    config |= {f"{state}_dtype": torch.float32 for state in places}
    for model in (pipeline.text_encoder, pipeline.dit):
        enable_vram_management(model.to("cpu"), wrapped, config)
    pipeline.vram_management_enabled = True
    return pipeline


def encode(pipeline, prompt):
    """What the pipeline does with one prompt before it samples."""
    from diffsynth.pipelines.wan_video import WanVideoUnit_PromptEmbedder

    (unit,) = [unit for unit in pipeline.units if type(unit) is WanVideoUnit_PromptEmbedder]
    with torch.inference_mode():
        return unit.process(pipeline, prompt, True)["context"]
