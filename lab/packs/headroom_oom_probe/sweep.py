"""Fail allocations of the simulated GPU in turn, and judge every result."""

import gc
import hashlib
import runpy
import sys
from pathlib import Path

import comfy.model_management as mm
import torch
from comfy.patcher_extension import WrappersMP

SHARED = runpy.run_path(str(Path(__file__).resolve().parents[1] / "node.py"))
ANY, Node, Shown = (SHARED[name] for name in ("ANY", "Node", "Shown"))


def device():
    return sys.modules["simgpu"].current()


def fault(at, times=1, kind="oom"):
    """Fail `times` allocations in a row from the `at`-th on, so that retries fail too."""
    simgpu = sys.modules["simgpu"]

    class InARow(simgpu.Fault):
        def strikes(self, nbytes):
            self.seen += 1
            hit = self.seen >= self.at and self.failed < self.times
            self.failed += hit
            return hit

    device().fault = InARow(at=at, times=times, kind=kind)


def disarm():
    fault, device().fault = device().fault, None
    return fault


def allocated():
    gc.collect()
    return device().figures().allocated_bytes


class Sweep:
    """Fail the k-th allocation of `run(arm)` for every k asked for, and judge every result.

    Several kinds of errors, separated by spaces, come in turn.
    """

    def __init__(self, run, settings):
        self.run = run
        self.times = settings["times"]
        self.kinds = settings["kind"].split()

    def __call__(self, reference, ks):
        fault(at=10**9)
        result, seen = self.run(lambda: fault(at=10**9)), disarm().seen
        answer = {
            "allocations": seen,
            "identical_unfailed": bool(torch.equal(result, reference)),
            "digest": hashlib.sha256(reference.cpu().contiguous().numpy().tobytes()).hexdigest(),
            "range": float(reference.max() - reference.min()),
            "problems": [], "tried": 0, "largest_difference": 0.0, "differing": [],
        }
        clean = allocated()
        first, last, stride = ks
        for k in range(first, min(last, seen) + 1, stride):
            self._one(k, reference, clean, answer)
        return answer

    def _one(self, k, reference, clean, answer):
        kind = self.kinds[answer["tried"] % len(self.kinds)]
        answer["tried"] += 1
        try:
            result = self.run(lambda: fault(at=k, times=self.times, kind=kind))
            difference = float((result - reference).abs().max())
            answer["largest_difference"] = max(answer["largest_difference"], difference)
            if difference:
                answer["differing"].append(k)
        except RuntimeError as error:
            answer["problems"].append([k, f"{type(error).__name__}: {str(error)[:600]}"])
        finally:
            disarm()
        left = allocated() - clean
        if left > 0:  # fewer are left where weights were offloaded
            answer["problems"].append([k, f"{left} bytes more allocated than after a clean run"])


def armed(model, arm, begins):
    """Return a clone of `model` that arms the fault at the first call of a kind, once.

    `begins` is OUTER_SAMPLE for loading and everything after it, SAMPLER_SAMPLE for the steps
    alone: a wrapper of the steps themselves would be a part of another pack in each of them.
    """
    pending = [arm]

    def begin(executor, *args, **kwargs):
        if pending:
            pending.pop()()
        return executor(*args, **kwargs)

    clone = model.clone()
    clone.add_wrapper_with_key(getattr(WrappersMP, begins), "headroom_oom_probe", begin)
    return clone


EVERY = 10**9
SWEEP = {
    "first": ("INT", {"default": 1}), "last": ("INT", {"default": EVERY, "max": EVERY}),
    "stride": ("INT", {"default": 1}),
    "times": ("INT", {"default": 1}), "kind": ("STRING", {"default": "oom"}),
}


# With it every run begins with loading the model, whose allocations can fail then too.
FRESH = ("BOOLEAN", {"default": False})


def start(fresh):
    if fresh:
        mm.unload_all_models()
        mm.soft_empty_cache()


class ProbeNode(Shown):
    RETURN_TYPES = ()


class ModelNode(ProbeNode):
    """A probe node between a loader and what samples: a MODEL in, a MODEL out."""

    RETURN_TYPES = ("MODEL",)
    OUTPUT_NODE = False
    INPUTS = {"model": ("MODEL",)}
