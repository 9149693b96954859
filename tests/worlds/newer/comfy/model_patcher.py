"""comfy/model_patcher.py, newer than 0.33: a model may be read from a fast disk."""


class ModelPatcher:
    def __init__(self, model, load_device, offload_device, size=0, weight_inplace_update=False,
                 fast_disk=False):
        self.fast_disk = fast_disk
