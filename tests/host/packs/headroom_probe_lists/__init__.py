"""Nodes that let a test make lists and look at them whole."""

import json
import runpy
from pathlib import Path

import torch

SHARED = runpy.run_path(str(Path(__file__).resolve().parents[4] / "lab/packs/node.py"))
ANY, Node = SHARED["ANY"], SHARED["Node"]


class ListShow(Node):
    """Shows the shape of each tensor in a list, and every other entry as it is."""

    OUTPUT_NODE = True
    INPUT_IS_LIST = True
    RETURN_TYPES = ()
    INPUTS = {"values": (ANY,)}

    def run(self, values):
        return {"ui": {"text": [json.dumps([self.shown(value) for value in values])]}}

    def shown(self, value):
        if isinstance(value, dict):
            value = value["samples"]
        return list(value.shape) if isinstance(value, torch.Tensor) else value


class ListOf(Node):
    """A list of pictures or of latents, one for each [batch, height, width] in the JSON."""

    OUTPUT_IS_LIST = (True,)
    INPUTS = {"kind": (["IMAGE", "MASK", "LATENT", "VIDEO LATENT", "STRING"],),
              "shapes": ("STRING",)}

    def run(self, kind, shapes):
        make = {
            "IMAGE": lambda b, h, w: torch.zeros(b, h, w, 3),
            "MASK": lambda b, h, w: torch.zeros(b, h, w),
            "LATENT": lambda b, h, w: {"samples": torch.zeros(b, 4, h, w)},
            "VIDEO LATENT": lambda b, h, w: {"samples": torch.zeros(b, 16, 3, h, w)},
            "STRING": lambda b, h, w: f"{w}x{h}",
        }[kind]
        return ([make(*shape) for shape in json.loads(shapes)],)


NODE_CLASS_MAPPINGS = {cls.__name__: cls for cls in (ListShow, ListOf)}
