"""A host that streams weights (dynamic VRAM), as far as OOM Guard asks it: what is done, in order.

Dynamic VRAM itself needs a real GPU. Here the functions by which ComfyUI cleans up after streaming
write their names down, and a patcher says that it streams.
"""

import importlib
import json
import sys
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest import mock

import comfy.model_management as mm
import comfy.model_patcher
from comfy.patcher_extension import WrappersMP

from .capacity import sample
from .sweep import ModelNode, ProbeNode, disarm, fault

CLEAN_UP = {
    "comfy.model_prefetch": "cleanup_prefetch_queues",
    "comfy.model_management": "reset_cast_buffers",
    "comfy_aimdo.model_vbar": "vbars_reset_watermark_limits",
}


class Streamed(comfy.model_patcher.ModelPatcher):
    def is_dynamic(self):
        return True

    def set_in_use_by_current_prompt(self, in_use):
        """Newer hosts tell dynamic patchers this around every prompt; there is nothing to pin."""


class OomStreamed(ModelNode):
    """A MODEL that says that it streams its weights."""

    def run(self, model):
        return (Streamed(model.model, model.load_device, model.offload_device),)


class OomStreamingEvents(ProbeNode):
    """What happens between a step that fails and its retry, as a list of names."""

    INPUTS = {"guarded": ("MODEL",)}

    def run(self, guarded):
        events = []

        def step(executor, *args, **kwargs):
            events.append("step")
            if events.count("step") == 1:
                fault(at=20)
            return executor(*args, **kwargs)

        model = guarded.clone()
        model.add_wrapper_with_key(WrappersMP.CALC_COND_BATCH, "headroom_oom_probe", step)
        with _host_that_streams(events):
            sample(model, 64, 1, 1)
        events.append(f"failed: {disarm().failed}")
        return {"ui": {"text": [json.dumps(events)]}}


@contextmanager
def _host_that_streams(events):
    def noting(name, function=lambda *args, **kwargs: None):
        def call(*args, **kwargs):
            events.append(name)
            return function(*args, **kwargs)

        return call

    with ExitStack() as changes:
        for name, function in CLEAN_UP.items():
            module = _module(name, changes)
            changes.enter_context(
                mock.patch.object(module, function, noting(function), create=True))
        memory = _module("comfy.memory_management", changes)
        changes.enter_context(mock.patch.object(memory, "aimdo_enabled", True, create=True))
        load = noting("load_models_gpu", mm.load_models_gpu)
        changes.enter_context(mock.patch.object(mm, "load_models_gpu", load))
        yield


def _module(name, changes):
    """The module of that name; an empty one where this host has none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package, _, last = name.rpartition(".")
        new = {name: ModuleType(name), package: sys.modules.get(package) or ModuleType(package)}
        changes.enter_context(mock.patch.dict(sys.modules, new))
        changes.enter_context(mock.patch.object(new[package], last, new[name], create=True))
        return new[name]
