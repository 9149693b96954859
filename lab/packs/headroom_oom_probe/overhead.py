"""What OOM Guard costs a step: taken out of a running sampling and put back in, step by step."""

import itertools
import json
import time

import comfy.model_management as mm
import comfy.sample
import comfy.samplers
import torch
from comfy.patcher_extension import WrappersMP

from .capacity import conditioning
from .sweep import ModelNode, ProbeNode

EMPTY = "headroom_empty_wrappers"
KINDS = (WrappersMP.PREDICT_NOISE, WrappersMP.CALC_COND_BATCH, WrappersMP.APPLY_MODEL)
calls = []
own_seconds = []


def empty(executor, *args, **kwargs):
    calls.append(1)
    return executor(*args, **kwargs)


class OomStopwatch(ModelNode):
    """Before a guard and behind it: the guard's own time is what passes between the two."""

    INPUTS = {"model": ("MODEL",), "behind": ("BOOLEAN",)}

    def run(self, model, behind):
        sign = -1 if behind else 1

        def timed(executor, *args, **kwargs):
            began = time.thread_time()
            try:
                return executor(*args, **kwargs)
            finally:
                own_seconds.append(sign * (time.thread_time() - began))

        clone = model.clone()
        for kind in KINDS:
            clone.add_wrapper_with_key(kind, f"headroom_stopwatch{sign}", timed)
        return (clone,)


class OomEmptyWrappers(ModelNode):
    """The wrappers that OOM Guard has around every step, with nothing in them."""

    def run(self, model):
        clone = model.clone()
        for kind in KINDS:
            clone.add_wrapper_with_key(kind, EMPTY, empty)
        return (clone,)


class Switch:
    """The wrappers under one key of a running sampling: in and out between its steps."""

    def __init__(self, model, key):
        self.model = model.clone()
        self.model.add_wrapper_with_key(WrappersMP.PREDICT_NOISE, "headroom_switch", self._see)
        self._key, self._places, self._taken = key, [], []

    def _see(self, executor, x, timestep, model_options=None, seed=None):
        """Steps are given a copy of the guider's options, which PREDICT_NOISE is looked up in."""
        if not self._places:
            self._places = [
                by_key for options in (executor.class_obj.model_options, model_options)
                for by_key in options["transformer_options"]["wrappers"].values()
            ]
        return executor(x, timestep, model_options, seed)

    def turn(self, on):
        if on:
            for by_key, functions in self._taken:
                by_key[self._key] = functions
            self._taken = []
        else:
            found = [by_key for by_key in self._places if self._key in by_key]
            if self._key and not found:
                raise RuntimeError(f"this sampling has no wrappers under {self._key!r}")
            self._taken = [(by_key, by_key.pop(self._key)) for by_key in found]


def clock():
    """Seconds that count: of the device where there is one, else CPU time of this process."""
    device = mm.get_torch_device()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


class OomOverhead(ProbeNode):
    """Seconds of each step of a sampling; the wrappers of `key` are there in every other one.

    The first is without them. `empty_calls` counts the calls of the wrappers of OomEmptyWrappers,
    `own_seconds` is the time between a pair of OomStopwatch.
    """

    INPUTS = {"model": ("MODEL",), "steps": ("INT",), "key": ("STRING",),
              "size": ("INT",)}

    def run(self, model, steps, key, size):
        switch, marks = Switch(model, key), []
        guider = comfy.samplers.CFGGuider(switch.model)
        guider.set_conds(conditioning(1), conditioning(2))
        guider.set_cfg(4.0)

        def between(step, *_):
            marks.append(clock())
            switch.turn(on=step % 2 == 1)

        latent = torch.zeros(1, 4, size // 8, size // 8)
        sigmas = comfy.samplers.calculate_sigmas(
            guider.model_patcher.get_model_object("model_sampling"), "normal", steps
        )
        guider.sample(
            comfy.sample.prepare_noise(latent, 7), latent,
            comfy.samplers.sampler_object("euler"), sigmas, callback=between, disable_pbar=True,
        )
        answer = {
            "seconds": [after - before for before, after in itertools.pairwise(marks)],
            "empty_calls": len(calls), "own_seconds": sum(own_seconds),
        }
        calls.clear()
        own_seconds.clear()
        return {"ui": {"text": [json.dumps(answer)]}}
