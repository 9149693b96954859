"""The prompts of the soak: each kind uses this pack in another way, with small models."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tools import graph as nodes
from tools import models
from tools.graph import Graph, Node

FILES = (models.TEST_CHECKPOINT, models.TEST_LORA, models.TEST_CONTROLNET, models.DEMO_UPSCALER)
Fault = dict[str, Any]
NO_FAULT: Fault = {"at": 0, "times": 0, "kind": "oom"}


@dataclass
class Soaked:
    """One prompt under construction. `guarded` is False where a fault may end it.

    With `tiled` pictures are made in the tiles that OOM Guard would take, by ComfyUI's own means.
    """

    tag: str
    seed: int
    fault: Fault
    guarded: bool = True
    tiled: bool = False
    graph: Graph = field(default_factory=Graph)
    kept: list[str] = field(default_factory=list)

    def through(self, value: Any) -> Node:
        """Hand a value through the node that arms the fault."""
        plan = json.dumps({"tag": self.tag, "fault": self.fault})
        return self.graph.add("SoakPass", value=value, plan=plan)

    def keep(self, value: Any) -> None:
        """Compare this value with the reference later."""
        self.kept.append(self.graph.add("SoakKeep", value=value).id)

    def checkpoint(self) -> tuple[Any, Any, Any]:
        """MODEL, CLIP, VAE: the very objects of the loader, cached by ComfyUI."""
        loader = nodes.add_checkpoint(self.graph, models.TEST_CHECKPOINT)
        return loader[0], loader[1], loader[2]

    def guard(self, value: Any, **options: Any) -> Any:
        """OOM Guard, in prompts that use it."""
        return nodes.add_guard(self.graph, value, **options) if self.guarded else value

    def parts(self) -> Iterator[Any]:
        """MODEL, CLIP, VAE, each armed and guarded."""
        return (self.guard(self.through(part)) for part in self.checkpoint())

    def words(self, clip: Any, text: str) -> Node:
        return self.graph.add("CLIPTextEncode", clip=clip, text=text)

    def sample(self, model: Any, positive: Any, negative: Any, batch: int = 1,
               size: tuple[Any, Any] = (64, 64), **settings: Any) -> Node:
        latent = self.graph.add("EmptyLatentImage", width=size[0], height=size[1],
                                batch_size=batch)
        return nodes.add_ksampler(self.graph, model, positive, negative, latent,
                            **{"seed": self.seed, **settings})

    def sample_words(self, model: Any, clip: Any, positive: str, negative: str = "bad",
                     **settings: Any) -> Node:
        return self.sample(model, self.words(clip, positive), self.words(clip, negative),
                           **settings)

    def decode(self, samples: Any, vae: Any) -> Node:
        if self.tiled:
            return self.graph.add("VAEDecodeTiled", samples=samples, vae=vae, tile_size=64,
                                  overlap=16, temporal_size=64, temporal_overlap=8)
        return self.graph.add("VAEDecode", samples=samples, vae=vae)

    def keep_both(self, latent: Any, vae: Any) -> None:
        """Compare the latent and its picture."""
        self.keep(latent)
        self.keep(self.decode(latent, vae))


def picture(soaked: Soaked, **settings: Any) -> None:
    """Load, encode, sample, decode, everything through `guard`."""
    model, clip, vae = soaked.parts()
    words = f"a red cube, number {soaked.seed}"
    soaked.keep_both(soaked.sample_words(model, clip, words, "blurry", **settings), vae)


def batch(soaked: Soaked) -> None:
    picture(soaked, batch=3, sampler_name="euler_ancestral")


def unguarded(soaked: Soaked) -> None:
    soaked.guarded = False
    picture(soaked)


def _encoded(soaked: Soaked, cache: str, split: str = "one prompt", text: str = "") -> Node:
    # The encoder comes straight from its loader: only then does the disk cache know it.
    words = soaked.through(text or f"a blue ball, number {soaked.seed}")
    clip = soaked.checkpoint()[1]
    return soaked.graph.add("HeadroomEncodeToCPU", clip=clip, text=words, split=split,
                            release_encoder=True, cache=cache)


def encode_from_disk(soaked: Soaked) -> None:
    """The encoder is not guarded, so a fault in it ends the prompt."""
    soaked.guarded = False
    encoded = _encoded(soaked, "disk")
    soaked.keep(encoded)
    soaked.keep(soaked.sample(soaked.checkpoint()[0], encoded, encoded))


def encode_lines(soaked: Soaked) -> None:
    lines = "\n".join(f"line {n} of {soaked.seed}" for n in range(3))
    soaked.guarded = False
    soaked.keep(_encoded(soaked, "disk", "one prompt per line", lines))


def encode_without_cache(soaked: Soaked) -> None:
    soaked.guarded = False
    soaked.keep(_encoded(soaked, "off"))


def cast(soaked: Soaked) -> None:
    """Splitting a batch in bfloat16 rounds otherwise than in one piece, so it is off."""
    parts = [soaked.through(part) for part in soaked.checkpoint()]
    model, clip, vae = (
        soaked.guard(
            soaked.graph.add("HeadroomCastBF16", model=part, dtype="bfloat16", keep_float32=""),
            split_batch=False,
        )
        for part in parts
    )
    soaked.keep_both(soaked.sample_words(model, clip, "a cone"), vae)


def _offloaded(soaked: Soaked, **options: Any) -> None:
    """Sample, offload the model, sample again with it: the same latent both times."""
    soaked.guarded = False
    model, clip, _ = (soaked.through(part) for part in soaked.checkpoint())
    positive, negative = soaked.words(clip, "a tree"), soaked.words(clip, "bad")
    first = soaked.sample(model, positive, negative)
    moved = nodes.add_offload(soaked.graph, model=model, after=first, **options)
    again = soaked.sample(moved, positive, negative)
    soaked.keep(moved[1])
    soaked.keep(again)


def offload_to_cpu(soaked: Soaked) -> None:
    _offloaded(soaked)


def offload_to_disk(soaked: Soaked) -> None:
    _offloaded(soaked, to="disk")


def offload_the_others(soaked: Soaked) -> None:
    _offloaded(soaked, scope="every other model")


def purge(soaked: Soaked) -> None:
    options = ({}, {"free_ram": True}, {"reset_node_cache": True},
               {"only_below_free_mib": 1000, "run": "every time"})[soaked.seed % 4]
    model, clip, vae = soaked.parts()
    latent = soaked.sample_words(model, clip, "a lake")
    purged = nodes.add_purge(soaked.graph, value=latent, **options)
    soaked.keep(soaked.decode(purged, vae))


def keep_one(soaked: Soaked) -> None:
    model, clip, vae = soaked.parts()
    latent = soaked.sample_words(model, clip, "a road")
    purged = nodes.add_purge(soaked.graph, value=latent, unload="all but keep", keep=vae)
    soaked.keep(soaked.decode(purged, vae))


def sizes(soaked: Soaked) -> None:
    model, clip, vae = soaked.parts()
    sorter = soaked.graph.add(
        "HeadroomSizeSorter", sizes="64x64\n96x64\n64x96", order="largest first",
        fit="keep each size", bucket=64,
    )
    words = soaked.words(clip, "a hill")
    latents = soaked.sample(model, words, words, size=(sorter[0], sorter[1]))
    pictures = soaked.decode(latents, vae)
    soaked.keep(soaked.graph.add("HeadroomRestoreOrder", items=pictures, index=sorter[3]))


def to_cpu(soaked: Soaked) -> None:
    model, clip, vae = soaked.parts()
    words = soaked.graph.add("HeadroomMoveToCPU", value=soaked.words(clip, "a boat"))
    sampled = soaked.sample(model, words, words)
    soaked.keep_both(soaked.graph.add("HeadroomMoveToCPU", value=sampled), vae)


def reported(soaked: Soaked) -> None:
    model, clip, vae = soaked.parts()
    words = soaked.words(clip, "a bird")
    image = soaked.decode(soaked.sample(model, words, words), vae)
    soaked.keep(soaked.graph.add("HeadroomMemoryReport", value=image))


def upscale(soaked: Soaked) -> None:
    name = models.DEMO_UPSCALER.split("/")[1]
    loaded = soaked.graph.add("UpscaleModelLoader", model_name=name)
    image = soaked.graph.add("EmptyImage", width=64, height=64, batch_size=1,
                             color=soaked.seed * 4321)
    model = soaked.guard(soaked.through(loaded))
    node = "SoakUpscaleInTiles" if soaked.tiled else "ImageUpscaleWithModel"
    soaked.keep(soaked.graph.add(node, upscale_model=model, image=image))


def control(soaked: Soaked) -> None:
    model, clip, vae = soaked.parts()
    net = soaked.guard(nodes.add_controlnet(soaked.graph, models.TEST_CONTROLNET))
    image = soaked.graph.add("EmptyImage", width=64, height=64, batch_size=1, color=8421504)
    words = soaked.words(clip, "a house")
    both = soaked.graph.add(
        "ControlNetApplyAdvanced", positive=words, negative=words, control_net=net, image=image,
        strength=0.7, start_percent=0.0, end_percent=1.0,
    )
    soaked.keep_both(soaked.sample(model, both[0], both[1]), vae)


def lora(soaked: Soaked) -> None:
    model, clip, vae = (soaked.through(part) for part in soaked.checkpoint())
    patched = nodes.add_lora(soaked.graph, model, clip, models.TEST_LORA, (0.8, 0.5))
    words = soaked.words(soaked.guard(patched[1]), "a cloud")
    latent = soaked.sample(soaked.guard(patched[0]), words, words)
    soaked.keep(soaked.decode(latent, soaked.guard(vae)))


KINDS: dict[str, Callable[[Soaked], None]] = {
    build.__name__: build
    for build in (picture, batch, unguarded, encode_from_disk, encode_lines, encode_without_cache,
                  cast, offload_to_cpu, offload_to_disk, offload_the_others, purge, keep_one, sizes,
                  to_cpu, reported, upscale, control, lora)
}


def build(
    kind: str, seed: int, tag: str, fault: Fault | None = None, tiled: bool = False
) -> Soaked:
    """The prompt of one kind and seed; `tag` has to be new."""
    soaked = Soaked(tag, seed, {**NO_FAULT, **(fault or {})}, guarded=not tiled, tiled=tiled)
    KINDS[kind](soaked)
    return soaked
