"""Weights that the pack itself places: ComfyUI's own counter says that none is loaded."""

import comfy.model_management as mm
import comfy.model_patcher


class Placed(comfy.model_patcher.ModelPatcher):
    """Its weights are on the device from the first load on, and are counted as 0 bytes."""

    def load(self, device_to=None, *args, **kwargs):
        super().load(device_to, *args, **kwargs)
        self.model.model_loaded_weight_memory = 0

    def loaded_size(self):
        return 0


class WorldPlacedModel:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",)}}

    RETURN_TYPES = ("MODEL",)
    FUNCTION = "execute"
    CATEGORY = "world"

    def execute(self, model):
        placed = Placed(model.model, mm.get_torch_device(), mm.unet_offload_device())
        placed.model_options = dict(model.model_options)
        return (placed,)
