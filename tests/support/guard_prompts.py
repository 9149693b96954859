"""The prompt of a picture, as small as it can be, and the classes that prompts are made of."""

from headroom.base.node_types import from_object_info

from .prompts import node

CORE = {"MODEL", "CLIP", "VAE", "CONTROL_NET", "UPSCALE_MODEL", "CONDITIONING", "LATENT", "IMAGE",
        "GUIDER", "SIGMAS", "STRING", "INT", "*", "CLIP_VISION", "CLIP_VISION_OUTPUT",
        "MODEL_PATCH"}


def info(inputs, outputs, output_node=False, optional=None):
    """A class as /object_info tells it."""
    declared = {name: [kind, {}] for name, kind in inputs.items()}
    more = {name: [kind, {}] for name, kind in (optional or {}).items()}
    return {"input": {"required": declared, "optional": more}, "output": outputs,
            "output_is_list": [False] * len(outputs), "output_node": output_node}


CLASSES = {
    "Checkpoint": info({"name": ["a", "b"]}, ["MODEL", "CLIP", "VAE"]),
    "Lora": info({"model": "MODEL", "clip": "CLIP"}, ["MODEL", "CLIP"]),
    "Merge": info({"model1": "MODEL", "model2": "MODEL"}, ["MODEL"]),
    "VaeDevice": info({"vae": "VAE"}, ["VAE"]),
    "Encode": info({"clip": "CLIP", "text": "STRING"}, ["CONDITIONING"]),
    "Empty": info({}, ["LATENT"]),
    "LoadAll": info({"name": ["a.safetensors"]}, ["MODEL", "CONDITIONING", "LATENT"]),
    "Sample": info({"model": "MODEL", "positive": "CONDITIONING", "latent": "LATENT"}, ["LATENT"]),
    "Decode": info({"samples": "LATENT", "vae": "VAE"}, ["IMAGE"]),
    "Save": info({"images": "IMAGE"}, [], output_node=True),
    "SaveModel": info({"model": "MODEL"}, [], output_node=True),
    "Guider": info({"model": "MODEL", "positive": "CONDITIONING"}, ["GUIDER"]),
    "GuiderTwice": info({"guider": "GUIDER"}, ["GUIDER"]),
    "SampleGuided": info({"guider": "GUIDER", "latent": "LATENT"}, ["LATENT"]),
    "Reroute": info({"": "*"}, ["*"]),
    "Switch": info({"on": "*", "off": "*"}, ["*"]),
    "Pipe": info({"model": "MODEL", "clip": "CLIP", "vae": "VAE"}, ["BASIC_PIPE"]),
    "PipeSample": info({"pipe": "BASIC_PIPE"}, ["LATENT"]),
    "Match": info({"value": "COMFY_MATCHTYPE_V3"}, ["COMFY_MATCHTYPE_V3"]),
    "Grow": info({"models": "COMFY_AUTOGROW_V3"}, ["LATENT"]),
    "Multi": info({"any_model": "MODEL,CLIP"}, ["STRING"]),
    "SampleAndPass": info({"model": "MODEL"}, ["MODEL", "LATENT"]),
    "Control": info({"positive": "CONDITIONING"}, ["CONDITIONING"],
                    optional={"control_net": "CONTROL_NET", "vae": "VAE"}),
    "ControlType": info({"control_net": "CONTROL_NET"}, ["CONTROL_NET"]),
    "Models": {**info({"model": "MODEL"}, ["MODEL"]), "output_is_list": [True]},
    "TakesLists": {**info({"models": "MODEL"}, [], output_node=True), "is_input_list": True},
    "SampleTyped": {**info({"model": "MODEL"}, ["LATENT"]), "checks_types": True},
    "ControlLoad": info({}, ["CONTROL_NET"]),
    "UpscaleLoad": info({}, ["UPSCALE_MODEL"]),
    "Upscale": info({"upscale_model": "UPSCALE_MODEL", "image": "IMAGE"}, ["IMAGE"]),
    "VisionLoad": info({"clip_name": ["v.safetensors"]}, ["CLIP_VISION"]),
    "VisionEncode": info({"clip_vision": "CLIP_VISION"}, ["CLIP_VISION_OUTPUT"]),
    "PatchLoad": info({"name": ["p.safetensors"]}, ["MODEL_PATCH"]),
    "PatchWithVae": info({"model": "MODEL", "model_patch": "MODEL_PATCH", "vae": "VAE"},
                         ["MODEL"]),
    "Text": info({"value": "STRING"}, ["STRING"]),
    "TheirLoop": {**info({"mode": "STRING"}, ["*"]), "loop_boundary": "start"},
    "TheirLoopEnd": {**info({"output_value": "*"}, ["*"]), "loop_boundary": "end"},
    "HeadroomOOMGuard": info({"model": "*", "max_attempts": "INT"}, ["*"]),
}


class Registry:
    def node_type(self, class_type):
        found = CLASSES.get(class_type)
        return from_object_info(found) if found else None

    def is_core(self, type_name):
        return type_name in CORE

    def with_new_names(self, prompt):
        return prompt


def picture():
    return {
        "1": node("Checkpoint", name="a"),
        "2": node("Encode", clip=["1", 1], text="x"),
        "3": node("Empty"),
        "4": node("Sample", model=["1", 0], positive=["2", 0], latent=["3", 0]),
        "5": node("Decode", samples=["4", 0], vae=["1", 2]),
        "6": node("Save", images=["5", 0]),
    }
