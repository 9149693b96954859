"""Write API-format prompts the way they are read: node by node."""

from typing import Any

from .client import Client
from .models import TEST_CHECKPOINT, TEST_CONTROLNET, TEST_LORA


class Node:
    """A node of a graph; `node[k]` is the link to its k-th output."""

    def __init__(self, node_id: str) -> None:
        self.id = node_id

    def __getitem__(self, output: int) -> list[Any]:
        return [self.id, output]


class Graph:
    """An API-format prompt under construction; `prompt` is what `/prompt` takes."""

    def __init__(self) -> None:
        self.prompt: dict[str, dict[str, Any]] = {}

    def add(self, class_type: str, node_id: str | None = None, /, **inputs: Any) -> Node:
        """Add a node; a Node given as an input stands for its first output."""
        name = node_id or str(len(self.prompt) + 1)
        links = {
            key: value[0] if isinstance(value, Node) else value for key, value in inputs.items()
        }
        self.prompt[name] = {"class_type": class_type, "inputs": links}
        return Node(name)


PURGE_DEFAULTS = {
    "unload": "all models",
    "only_below_free_mib": 0,
    "free_ram": False,
    "reset_node_cache": False,
    "run": "when inputs change",
}
GUARD_DEFAULTS = {
    "free_other_models": True, "offload_weights": True, "split_batch": True, "tile_vae": True,
    "max_attempts": 8,
}
OFFLOAD_DEFAULTS = {"scope": "this model", "to": "CPU"}


def add_purge(graph: Graph, **inputs: Any) -> Node:
    """Add a Purge VRAM node with its default settings."""
    return graph.add("HeadroomPurgeVRAM", **{**PURGE_DEFAULTS, **inputs})


def add_guard(graph: Graph, model: Any, **inputs: Any) -> Node:
    """Add an OOM Guard node with its default settings."""
    return graph.add("HeadroomOOMGuard", model=model, **{**GUARD_DEFAULTS, **inputs})


def forget_everything(client: Client) -> None:
    """Unload all models and empty the node cache of an idle server before the next prompt.

    ComfyUI acts on the request between two prompts, so it is made from inside one.
    """
    graph = Graph()
    add_purge(graph, reset_node_cache=True, run="every time")
    client.run(graph.prompt)


def add_offload(graph: Graph, **inputs: Any) -> Node:
    """Add an Offload Model node with its default settings."""
    return graph.add("HeadroomOffloadModel", **{**OFFLOAD_DEFAULTS, **inputs})


def add_checkpoint(graph: Graph, file: str) -> Node:
    """Add the loader of a checkpoint, named as in `tools.models`: its folder and its name."""
    return graph.add("CheckpointLoaderSimple", ckpt_name=file.rpartition("/")[2])


def add_lora(graph: Graph, model: Any, clip: Any, file: str) -> Node:
    """Add a LoRA at full strength to a model and its text encoder."""
    return graph.add("LoraLoader", model=model, clip=clip, lora_name=file.rpartition("/")[2],
                     strength_model=1.0, strength_clip=1.0)


SAMPLER_DEFAULTS = {"seed": 1, "steps": 2, "cfg": 4.0, "sampler_name": "euler",
                    "scheduler": "normal", "denoise": 1.0}


def add_ksampler(
    graph: Graph, model: Any, positive: Any, negative: Any, latent: Any, **settings: Any
) -> Node:
    """Add a KSampler, of two steps where the settings say nothing else."""
    return graph.add("KSampler", model=model, positive=positive, negative=negative,
                     latent_image=latent, **{**SAMPLER_DEFAULTS, **settings})


def add_sampler(
    graph: Graph, model: Any, clip: Any, seed: int = 1, size: int = 32, **settings: Any
) -> Node:
    """Add an encoder, an empty latent and a KSampler for an SD1.5-class model.

    On a small machine encoding takes longer than sampling does: one text is enough.
    """
    positive = graph.add("CLIPTextEncode", clip=clip, text="a red cube on a table")
    negative = graph.add("ConditioningZeroOut", conditioning=positive)
    latent = graph.add("EmptyLatentImage", width=size, height=size, batch_size=1)
    return add_ksampler(graph, model, positive, negative, latent, seed=seed, **settings)


def picture(seed: int = 1, extras: bool = False, batch: int = 1, size: int = 32) -> Graph:
    """SD1.5 class from the loader to a saved picture; `extras`: with a LoRA and a ControlNet."""
    graph = Graph()
    loader = add_checkpoint(graph, TEST_CHECKPOINT)
    model: Any = loader
    if extras:
        model = graph.add("LoraLoader", "lora", model=loader[0], clip=loader[1],
                          lora_name=TEST_LORA.rpartition("/")[2], strength_model=1.0,
                          strength_clip=1.0)
    words: list[Any] = [graph.add("CLIPTextEncode", "positive", clip=model[1], text="a red cube")]
    words.append(graph.add("ConditioningZeroOut", "negative", conditioning=words[0]))
    if extras:
        net = graph.add("ControlNetLoader", "control",
                        control_net_name=TEST_CONTROLNET.rpartition("/")[2])
        hint = graph.add("EmptyImage", width=size, height=size, batch_size=1, color=8421504)
        both = graph.add("ControlNetApplyAdvanced", "apply", positive=words[0], negative=words[1],
                         control_net=net, image=hint, strength=0.7, start_percent=0.0,
                         end_percent=1.0)
        words = [both[0], both[1]]
    latent = graph.add("EmptyLatentImage", "latent", width=size, height=size, batch_size=batch)
    sample = graph.add("KSampler", "sampler", model=model[0], positive=words[0], negative=words[1],
                       latent_image=latent, **{**SAMPLER_DEFAULTS, "seed": seed})
    image = graph.add("VAEDecode", "decode", samples=sample, vae=loader[2])
    graph.add("SaveImage", "save", images=image, filename_prefix="rescue")
    return graph
