"""A pack that treats a ControlNet by its very class, as Advanced-ControlNet does.

Only what is exactly ComfyUI's ControlNet is turned into a class of its own with a strength for
each layer; anything else is taken as it is, silently.
"""


def weighted(control, vanilla, factor):
    """Return `control` in a class of our own where it is exactly of the class `vanilla`."""
    if type(control) != vanilla:  # noqa: E721 - as the packs ask
        return control
    made = control.copy()
    made.__class__ = _weighted_class(vanilla)
    made.factor = factor
    return made


def _weighted_class(vanilla):
    class Weighted(vanilla):
        factor = 1.0

        def control_merge(self, control, control_prev, output_dtype):
            scaled = {key: [None if part is None else part * self.factor for part in parts]
                      for key, parts in control.items()}
            return super().control_merge(scaled, control_prev, output_dtype)

        def copy(self):
            made = super().copy()
            made.__class__, made.factor = type(self), self.factor
            return made

    return Weighted


class WorldWeightedControl:
    CATEGORY = "tests"
    FUNCTION = "execute"
    RETURN_TYPES = ("CONTROL_NET",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"control_net": ("CONTROL_NET",),
                             "factor": ("FLOAT", {"default": 0.25, "min": 0.0, "max": 4.0})}}

    def execute(self, control_net, factor):
        from comfy.controlnet import ControlNet

        return (weighted(control_net, ControlNet, factor),)


NODE_CLASS_MAPPINGS = {"WorldWeightedControl": WorldWeightedControl}
