"""A stand-in for ComfyUI: models in their patchers, and its list of loaded models."""

import torch

MIB = 1 << 20


class Patcher:
    """A model as ComfyUI's ModelPatcher hands it on; sizes are in bytes.

    `sized` counts how often its size was asked for; `behind` are the patchers of its patches.
    """

    def __init__(self, model=None, device="cpu", size=8, loaded=0, name="", dynamic=False,
                 behind=()):
        self.model = torch.nn.Linear(2, 2) if model is None else model
        self.load_device, self.offload_device = torch.device(device), torch.device("cpu")
        self.size, self.loaded, self.name, self.dynamic = size, loaded, name, dynamic
        self.behind, self.sized = list(behind), 0

    def is_clone(self, other):
        return self.model is other.model

    def model_patches_models(self):
        return self.behind

    def model_size(self):
        self.sized += 1
        return self.size

    def loaded_size(self):
        return self.loaded


class Entry:
    """A line of ComfyUI's list of loaded models; None for a model that is gone."""

    def __init__(self, patcher):
        self.model = patcher
        self.device = patcher.load_device if patcher is not None else torch.device("cuda:0")


class Host:
    """The host adapter: all `patchers` live, those given are loaded, on a device that may not know
    how many bytes are free."""

    def __init__(self, *loaded, living=(), device="cpu", free_bytes=0):
        self.entries, self.patchers = [Entry(patcher) for patcher in loaded], [*loaded, *living]
        self.device, self.free_bytes = torch.device(device), free_bytes

    def compute_device(self):
        return self.device

    def available_bytes(self, device):
        return self.free_bytes

    def reserve_bytes(self):
        return 0

    def set_reserve_bytes(self, wanted):
        return wanted

    def executing_node(self):
        return None, None

    def living_patchers(self):
        return self.patchers

    def loaded_entries(self):
        return list(self.entries)

    def entries_of(self, patchers):
        return [entry for entry in self.entries if any(entry.model is p for p in patchers)]

    def same_weights(self, one, other):
        return one.model is other.model

    def is_dynamic(self, patcher):
        return patcher.dynamic

    def source_files(self, patcher):
        return []

    def unloadable_bytes(self, entry):
        return entry.model.size
