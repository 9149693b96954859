"""A stand-in for ComfyUI: models in their patchers, and its list of loaded models."""

import contextlib

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
    how many bytes are free. `kept` and `freed` are the bytes that a limit has asked for.
    """

    def __init__(self, *loaded, living=(), device="cpu", free_bytes=0, dynamic_vram=False):
        self.entries, self.patchers = [Entry(patcher) for patcher in loaded], [*loaded, *living]
        self.device, self.free_bytes = torch.device(device), free_bytes
        self.dynamic_vram, self.can_keep, self.hidden = dynamic_vram, True, 0
        self.kept, self.freed, self.files = [], [], {}

    def compute_device(self):
        return self.device

    def available_bytes(self, device):
        return self.free_bytes

    def reserve_bytes(self):
        return 0

    def set_reserve_bytes(self, wanted):
        return wanted

    def executing_node(self):
        return None, None, 0

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
        return self.files.get(patcher, [])

    def has_dynamic_vram(self):
        return self.dynamic_vram

    def keep_from_pages(self, kept_bytes):
        self.kept.append(kept_bytes)
        return self.can_keep

    def hidden_bytes(self, device):
        return self.hidden

    def free_at_least(self, device, wanted_bytes, keep):
        self.freed.append((str(device), wanted_bytes))

    def unloadable_bytes(self, entry):
        return entry.model.size


class GuardHost:
    """headroom/host/guard.py on a ComfyUI that streams, records and leaves out nothing."""

    recording_paused = contextlib.nullcontext
    sampling = streaming = property(lambda self: self)  # the functions of its other modules

    def __init__(self, **functions):
        vars(self).update(functions)

    def buffers_bytes(self):
        return 0

    def buffers_needed_bytes(self, patchers):
        return 0

    def estimated_bytes(self, *_):
        return 1.0

    def _no(self, *_):
        return False

    has_half_pages = is_interrupt = is_host_oom = foreign_wrappers = is_injected = _no
    keeps_failed_steps = says_left_out = _no

    def empty_caches(self, *_):
        return []

    def _nothing(self, *_):
        return None

    check_interrupt = settle_streaming = start_sampling = end_sampling = load_again = _nothing
    clip_on_cpu = drop_caches = wire_type_of = _nothing
