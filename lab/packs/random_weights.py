"""Text encoders with random weights, which the packs here build without a file."""

from types import SimpleNamespace

import comfy.sd
import folder_paths
import torch


def random_clip(model, tokenizer, sizes, parameters, seed=0, most_rows=None, **options):
    """A CLIP of these classes of ComfyUI, as large as `sizes` says."""
    clip = comfy.sd.CLIP(
        SimpleNamespace(params={}, clip=model, tokenizer=tokenizer),
        embedding_directory=folder_paths.get_folder_paths("embeddings"),
        parameters=parameters, model_options=dict(sizes), **options,
    )
    _load_random(clip, torch.Generator().manual_seed(seed), most_rows)
    return clip


def _load_random(clip, generator, most_rows):
    """Give a CLIP random weights in ComfyUI's own way of loading a state dict.

    `most_rows` draws no more rows than that for a matrix and repeats them: a vocabulary's worth
    takes seconds.
    """
    weights = {
        name: _filled(name, shape, dtype, generator, most_rows)
        for name, shape, dtype in _wanted(clip.cond_stage_model)
    }
    clip.load_sd(weights, full_model=True)


def _wanted(model):
    """Name, shape and dtype of every weight, in the order of the modules."""
    for prefix, module in model.named_modules():
        start = f"{prefix}." if prefix else ""
        for name, weight in module.named_parameters(recurse=False):
            yield start + name, weight.shape, weight.dtype
        if isinstance(module, torch.nn.Linear) and module.weight is None:
            # With dynamic VRAM ComfyUI makes the weights of a layer when they are loaded.
            yield f"{start}weight", (module.out_features, module.in_features), _dtype(module)
            if module.comfy_need_lazy_init_bias:
                yield f"{start}bias", (module.out_features,), _dtype(module)


def _dtype(module):
    return module.weight_comfy_model_dtype or torch.float32


def _filled(name, shape, dtype, generator, most_rows):
    """Values that keep activations in range: vectors neutral, matrices by their width."""
    if len(shape) < 2:
        return torch.full(shape, 0.0 if name.endswith("bias") else 1.0, dtype=dtype)
    rows = min(shape[0], most_rows or shape[0])
    noise = torch.randn(rows, *shape[1:], generator=generator) / shape[-1] ** 0.5
    return noise.to(dtype)[torch.arange(shape[0]) % rows]
