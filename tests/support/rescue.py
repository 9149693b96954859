"""Prompts without a guard, and what became of them when memory ran out."""

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from devtools.client import cached_nodes
from devtools.graph import Graph, add_checkpoint
from devtools.models import TEST_CHECKPOINT

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
    words = [graph.add("CLIPTextEncode", name, clip=model[1], text=text)
             for name, text in (("positive", "a red cube"), ("negative", "blurry"))]
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
    """The history entries of a prompt's first and second life; the second None without one."""

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
        """The nodes that had finished in the first life."""
        messages = dict(self.first["status"]["messages"])
        error = messages.get("execution_error", {})
        return set(error.get("executed", [])) | cached_nodes(self.first)

    @property
    def failed(self) -> str | None:
        return dict(self.first["status"]["messages"]).get("execution_error", {}).get("node_id")

    @property
    def cached(self) -> set[str]:
        """The nodes that came from the cache in the second life."""
        return cached_nodes(self.second) if self.second is not None else set()


def live(client, prompt, extra_data=RESCUE, timeout=600.0, **more) -> Lives:
    """Run a prompt, and its second life if it gets one."""
    first_id = client.queue(prompt, extra_data=extra_data, **more)
    lives = Lives(first_id, client.wait(first_id, timeout))
    second_id = client.get_json(f"/headroom/runs/{first_id}")["rescued_as"]
    if second_id is not None:
        lives.second_id, lives.second = second_id, client.wait(second_id, timeout)
    return lives


def pictures(client, *entries) -> list[bytes]:
    """The pictures that these runs saved, in their order."""
    found = [image for entry in entries for out in entry["outputs"].values()
             for image in out.get("images", [])]
    return [client.get_bytes("/view?" + urlencode(image)) for image in found]


def wait_until(condition, timeout=60.0):
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come about in time")
        time.sleep(0.05)
    return found
