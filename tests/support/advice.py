"""A run of a text-to-image prompt as the findings see it: tests change what they are about."""

from headroom.advise.advise import advise
from headroom.advise.case import Case, Step, Surroundings
from headroom.advise.finding import Bounds
from headroom.base.node_types import NodeType
from headroom.host.types import ModelFacts
from headroom.record.memory import Peak

MIB = 1 << 20
PROMPT = {
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.safetensors"}},
    "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["4", 1], "text": "a cat"}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["4", 1], "text": "blurry"}},
    "3": {"class_type": "KSampler", "inputs": {
        "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["8", 0]}},
}
TYPES = {
    "CheckpointLoaderSimple": NodeType({"ckpt_name": "COMBO"}, ("MODEL", "CLIP", "VAE")),
    "EmptyLatentImage": NodeType({"width": "INT", "height": "INT"}, ("LATENT",)),
    "CLIPTextEncode": NodeType({"clip": "CLIP", "text": "STRING"}, ("CONDITIONING",)),
    "CLIPTextEncodeFlux": NodeType({"clip": "CLIP", "t5xxl": "STRING"}, ("CONDITIONING",)),
    "KSampler": NodeType({"model": "MODEL", "positive": "CONDITIONING", "negative": "CONDITIONING",
                          "latent_image": "LATENT"}, ("LATENT",)),
    "VAEDecode": NodeType({"samples": "LATENT", "vae": "VAE"}, ("IMAGE",)),
    "SaveImage": NodeType({"images": "IMAGE"}, (), True),
    "ControlNetLoader": NodeType({"control_net_name": "COMBO"}, ("CONTROL_NET",)),
    "ControlNetApplyAdvanced": NodeType(
        {"positive": "CONDITIONING", "negative": "CONDITIONING", "control_net": "CONTROL_NET"},
        ("CONDITIONING", "CONDITIONING")),
    "Sizes": NodeType({"text": "STRING"}, ("INT", "INT"), lists=(True, True)),
    "HeadroomEncodeToCPU": NodeType({"clip": "CLIP", "text": "STRING"}, ("CONDITIONING",),
                                    lists=(True,)),
    "StartLoop": NodeType({}, ("INT",), loop_boundary="start"),
    "EndLoop": NodeType({"output_value": "*"}, ("*",), loop_boundary="end"),
    "HeadroomPurgeVRAM": NodeType({"value": "*"}, ("*",), True),
    "HeadroomOffloadModel": NodeType({"model": "*", "after": "*"}, ("*", "*"), True),
    "HeadroomOOMGuard": NodeType({"model": "*"}, ("*",)),
    "HeadroomCastBF16": NodeType({"model": "*"}, ("*",)),
}


class Registry:
    def node_type(self, class_type):
        return TYPES.get(class_type)

    def is_core(self, type_name):
        return type_name in {"MODEL", "CLIP", "VAE", "LATENT", "IMAGE", "CONDITIONING", "INT",
                             "STRING", "COMBO", "CONTROL_NET"}


def model(model_id, kind, mib, **more):
    return ModelFacts(model_id, kind, kind.title(), None, mib * MIB, **more)


UNET, CLIP, VAE = (model("m1", "diffusion model", 1000), model("m2", "text encoder", 600),
                   model("m3", "VAE", 200))


def step(node_id, peak_mib, held, prompt=PROMPT, at_most_mib=None, **more):
    """A step with these models, in MiB by id; a pair is what was there before and after."""
    pairs = {m: mib if isinstance(mib, tuple) else (mib, mib) for m, mib in held.items()}
    class_type = prompt.get(node_id, {}).get("class_type", "Gone")
    return Step(
        node_id, node_id, class_type, f"Title of {class_type}", more.pop("status", "done"),
        Peak(peak_mib * MIB, (at_most_mib or peak_mib) * MIB),
        {m: Bounds(min(pair) * MIB, max(pair) * MIB) for m, pair in pairs.items()},
        frozenset(m for m, (before, after) in pairs.items() if after > before),
        **{name: value * MIB for name, value in more.items()},
    )


def text_to_image(prompt=PROMPT):
    """All three models stay where they were used: 2100 MiB at the end."""
    return (
        step("6", 700, {"m2": (0, 600)}, prompt), step("7", 700, {"m2": 600}, prompt),
        step("3", 1900, {"m2": 600, "m1": (0, 1000)}, prompt),
        step("8", 2100, {"m2": 600, "m1": 1000, "m3": (0, 200)}, prompt),
        step("9", 1850, {"m2": 600, "m1": 1000, "m3": 200}, prompt),
    )


def case(steps=None, prompt=PROMPT, models=(UNET, CLIP, VAE), total_mib=8192, **around):
    return Case(prompt, Registry(), tuple(steps if steps is not None else text_to_image(prompt)),
                {m.id: m for m in models}, "cuda:0", total_mib * MIB, Surroundings(**around))


def found(*args, **more):
    """The advice on a `case` of these arguments, by its ids."""
    return {one.id: one for one in advise(case(*args, **more))}
