"""API-format prompts that browser tests put on the canvas."""

from __future__ import annotations

from typing import Any

from tools.graph import GUARD_DEFAULTS, PURGE_DEFAULTS

Prompt = dict[str, dict[str, Any]]
# Few steps and pixels, for a machine without a GPU: the first widgets of a node, by its title.
QUICKER = {"Size Sorter": ["192x192\n256x192"], "KSampler": [3, "fixed", 4]}
MAKE_QUICKER = """quicker => {
  for (const node of app.graph._nodes)
    (quicker[node.title] ?? []).forEach((value, at) => { node.widgets[at].value = value; });
}"""


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def untitled(prompt: Prompt) -> Prompt:
    """Without titles: a node without one of its own has what this host calls it."""
    return {key: {"class_type": each["class_type"], "inputs": each["inputs"]}
            for key, each in prompt.items()}


def picture(seed: int = 1) -> Prompt:
    """A picture without any model: quick, and every node runs."""
    return {
        "1": node("EmptyImage", width=64, height=64, batch_size=1, color=seed),
        "2": node("HeadroomPurgeVRAM", value=["1", 0], **PURGE_DEFAULTS),
        "3": node("PreviewImage", images=["2", 0]),
    }


def sampling(seed: int = 1, size: int = 32, guarded: bool = False) -> Prompt:
    """SD1.5 class: load, encode, sample, decode; with OOM Guard on the model if `guarded`."""
    prompt = {
        "1": node("CheckpointLoaderSimple", ckpt_name="headroom_test_sd15.safetensors"),
        "2": node("CLIPTextEncode", clip=["1", 1], text="a mountain lake"),
        "3": node("EmptyLatentImage", width=size, height=size, batch_size=1),
        "4": node(
            "KSampler", model=["1", 0], positive=["2", 0], negative=["2", 0], latent_image=["3", 0],
            seed=seed, steps=2, cfg=4.0, sampler_name="euler", scheduler="normal", denoise=1.0,
        ),
        "5": node("VAEDecode", samples=["4", 0], vae=["1", 2]),
        "6": node("PreviewImage", images=["5", 0]),
    }
    if guarded:
        prompt["7"] = node("HeadroomOOMGuard", model=["1", 0], **GUARD_DEFAULTS)
        prompt["4"]["inputs"]["model"] = ["7", 0]
    return prompt
