"""Prompts without a guard, and what became of them when memory ran out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from .client import Client, cached_nodes
from .graph import Graph, add_checkpoint
from .models import TEST_CHECKPOINT

RESCUE = {"headroom": {"rescue": True}}
LORA = "headroom_test_lora.safetensors"
CONTROLNET = "headroom_test_controlnet.safetensors"
SAMPLER = {"steps": 2, "cfg": 4.0, "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0}


def picture(seed: int = 1, extras: bool = False, batch: int = 1, size: int = 64) -> Graph:
    """SD1.5 class from the loader to a saved picture; `extras`: with a LoRA and a ControlNet."""
    graph = Graph()
    loader = add_checkpoint(graph, TEST_CHECKPOINT)
    model: Any = loader
    if extras:
        model = graph.add("LoraLoader", "lora", model=loader[0], clip=loader[1], lora_name=LORA,
                          strength_model=1.0, strength_clip=1.0)
    words: list[Any] = [graph.add("CLIPTextEncode", "positive", clip=model[1], text="a red cube")]
    words.append(graph.add("ConditioningZeroOut", "negative", conditioning=words[0]))
    if extras:
        net = graph.add("ControlNetLoader", "control", control_net_name=CONTROLNET)
        hint = graph.add("EmptyImage", width=size, height=size, batch_size=1, color=8421504)
        both = graph.add("ControlNetApplyAdvanced", "apply", positive=words[0], negative=words[1],
                         control_net=net, image=hint, strength=0.7, start_percent=0.0,
                         end_percent=1.0)
        words = [both[0], both[1]]
    latent = graph.add("EmptyLatentImage", "latent", width=size, height=size, batch_size=batch)
    sample = graph.add("KSampler", "sampler", model=model[0], positive=words[0], negative=words[1],
                       latent_image=latent, seed=seed, **SAMPLER)
    image = graph.add("VAEDecode", "decode", samples=sample, vae=loader[2])
    graph.add("SaveImage", "save", images=image, filename_prefix="rescue")
    return graph


@dataclass
class Lives:
    """The history entries of a prompt's first run and its rerun; the second None without one."""

    first_id: str
    first: dict[str, Any]
    second_id: str | None = None
    second: dict[str, Any] | None = None

    @property
    def last(self) -> dict[str, Any]:
        return self.second if self.second is not None else self.first

    @property
    def succeeded(self) -> bool:
        return self.last["status"]["status_str"] == "success"

    @property
    def finished(self) -> set[str]:
        """The nodes that had finished in the first run."""
        messages = dict(self.first["status"]["messages"])
        error = messages.get("execution_error", {})
        return set(error.get("executed", [])) | cached_nodes(self.first)

    @property
    def failed(self) -> str | None:
        return dict(self.first["status"]["messages"]).get("execution_error", {}).get("node_id")

    @property
    def cached(self) -> set[str]:
        """The nodes that came from the cache in the rerun."""
        return cached_nodes(self.second) if self.second is not None else set()


def live(
    client: Client, prompt: Mapping[str, Any], extra_data: Mapping[str, Any] | None = RESCUE,
    timeout: float = 600.0,
) -> Lives:
    """Run a prompt, and its rerun if it gets one."""
    first_id = client.queue(prompt, extra_data=extra_data)
    lives = Lives(first_id, client.wait(first_id, timeout))
    second_id = client.get_json(f"/headroom/runs/{first_id}")["rescued_as"]
    if second_id is not None:
        lives.second_id, lives.second = second_id, client.wait(second_id, timeout)
    return lives


def video(seed: int = 7, write: str = "SaveLatent", **inputs: Any) -> Graph:
    """DiT class: a tiny Wan of the test nodes, sampled through a guider."""
    graph = Graph()
    wan = graph.add("OomTinyWan", "wan", batch=1)
    guider = graph.add("CFGGuider", "guider", model=wan[0], positive=wan[1], negative=wan[2],
                       cfg=4.0)
    sampler = graph.add("KSamplerSelect", "select", sampler_name="euler")
    sigmas = graph.add("BasicScheduler", "sigmas", model=wan[0], scheduler="normal", steps=2,
                       denoise=1.0)
    noise = graph.add("RandomNoise", "noise", noise_seed=seed)
    sample = graph.add("SamplerCustomAdvanced", "sample", noise=noise, guider=guider,
                       sampler=sampler, sigmas=sigmas, latent_image=wan[3])
    saved = inputs or {"samples": sample, "filename_prefix": "rescue"}
    graph.add(write, "save", **{name: sample if value is None else value
                                for name, value in saved.items()})
    return graph


def saved(client: Client, *entries: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The files (name, content) that these runs saved, in their order."""
    files = [file for entry in entries for out in entry["outputs"].values()
             for kind in ("images", "latents") for file in out.get(kind, [])]
    return [(file["filename"], client.get_bytes("/view?" + urlencode(file))) for file in files]


def pictures(client: Client, *entries: Mapping[str, Any]) -> list[bytes]:
    """The pictures that these runs saved, in their order."""
    return [content for _, content in saved(client, *entries)]


def wait_until(condition: Callable[[], Any], timeout: float = 60.0) -> Any:
    """Return the first true result of `condition`; TimeoutError if there is none in time."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError("the condition was not met in time")
        time.sleep(0.05)
    return found
