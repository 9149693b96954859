"""Classes asked for exactly: a subclass is somebody else's, or an error."""

import comfy.controlnet
import comfy.sd

from .anything import ANYTHING, Node


class ScaledControlNet(comfy.controlnet.ControlNet):
    """A ControlNet whose outputs have weights of their own, as packs make from a plain one."""

    weight = 1.0

    @classmethod
    def made_from(cls, control, weight):
        made = cls(None, load_device=control.load_device,
                   manual_cast_dtype=control.manual_cast_dtype)
        made.control_model = control.control_model
        made.control_model_wrapped = control.control_model_wrapped
        control.copy_to(made)
        made.weight = weight
        return made

    def copy(self):
        return ScaledControlNet.made_from(self, self.weight)

    def control_merge(self, control, control_prev, output_dtype):
        scaled = {key: [None if one is None else one * self.weight for one in outputs]
                  for key, outputs in control.items()}
        return super().control_merge(scaled, control_prev, output_dtype)


class WorldWeightedControl(Node):
    """Makes a ScaledControlNet of a plain ControlNet; another class passes as it is."""

    INPUTS = {"control_net": ("CONTROL_NET",), "weight": ("FLOAT", {})}
    RETURN_TYPES = ("CONTROL_NET",)

    def run(self, control_net, weight):
        if type(control_net) is comfy.controlnet.ControlNet:
            control_net = ScaledControlNet.made_from(control_net, weight)
        return (control_net,)


class WorldExactly(Node):
    """Passes a VAE or CLIP of exactly that class; ValueError for any other."""

    INPUTS = {"value": (ANYTHING,)}

    def run(self, value):
        if type(value) not in (comfy.sd.VAE, comfy.sd.CLIP):
            raise ValueError(f"expected a VAE or CLIP of ComfyUI, got {type(value).__mro__}")
        return (value,)


class WorldTyped(Node):
    """Accepts a wire only if it says MODEL."""

    INPUTS = {"model": ("MODEL",), "latent": ("LATENT",)}
    RETURN_TYPES = ("LATENT",)

    @classmethod
    def VALIDATE_INPUTS(cls, input_types):
        return input_types["model"] == "MODEL"

    def run(self, model, latent):
        return (latent,)
