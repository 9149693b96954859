"""Weights that the pack itself places, as DisTorch does: ComfyUI counts none of them as loaded."""

from .anything import Node


class WorldPlacedModel(Node):
    RETURN_TYPES = ("MODEL",)
    INPUTS = {"model": ("MODEL",)}

    def run(self, model):
        made = model.clone()
        made.__class__ = _placing(type(model))
        return (made,)


def _placing(base):
    class Placing(base):
        def partially_load(self, device_to, *args, **kwargs):
            self.patch_model(load_weights=False)
            self.model.to(device_to)
            return 0

        def load(self, device_to=None, *args, **kwargs):
            self.model.to(device_to)

    return Placing
