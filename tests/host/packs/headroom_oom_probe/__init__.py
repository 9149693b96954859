"""Nodes for the tests and benchmarks of OOM Guard: sweeps of failing allocations, tiny models.

They run inside a ComfyUI on the simulated GPU and compare every run with an unguarded, unfailed
one. Answers are JSON in the node's `ui` text.
"""

import gc
import json
import sys
import time

import comfy.ldm.wan.model
import comfy.model_management as mm
import comfy.ops
import comfy.sd
import torch
from comfy.patcher_extension import WrappersMP

import nodes

CATEGORY = "headroom tests"


def _device():
    return sys.modules["simgpu"].current()


def _fault(at, times=1, kind="oom"):
    """Fail `times` allocations in a row from the `at`-th on, so that retries fail too."""
    simgpu = sys.modules["simgpu"]

    class InARow(simgpu.Fault):
        def strikes(self, nbytes):
            self.seen += 1
            hit = self.seen >= self.at and self.failed < self.times
            self.failed += hit
            return hit

    _device().fault = InARow(at=at, times=times, kind=kind)


def _disarm():
    fault, _device().fault = _device().fault, None
    return fault


def _allocated():
    gc.collect()
    return _device().figures().allocated_bytes


class Sweep:
    """Fail the k-th allocation of `run(arm)` for every k asked for, and judge every result."""

    def __init__(self, run, settings):
        self.run = run
        self.settings = settings

    def __call__(self, reference, ks):
        _fault(at=10**9)
        result, seen = self.run(lambda: _fault(at=10**9)), _disarm().seen
        answer = {
            "allocations": seen,
            "identical_unfailed": bool(torch.equal(result, reference)),
            "range": float(reference.max() - reference.min()),
            "problems": [], "tried": 0, "largest_difference": 0.0,
        }
        clean = _allocated()
        for k in range(*slice(*ks).indices(seen + 1)):
            self._one(k, reference, clean, answer)
        return answer

    def _one(self, k, reference, clean, answer):
        answer["tried"] += 1
        try:
            result = self.run(lambda: _fault(at=k, **self.settings))
            difference = float((result - reference).abs().max())
            answer["largest_difference"] = max(answer["largest_difference"], difference)
        except RuntimeError as error:
            answer["problems"].append([k, f"{type(error).__name__}: {str(error)[:600]}"])
        finally:
            _disarm()
        left = _allocated() - clean
        if left:
            answer["problems"].append([k, f"{left} bytes more allocated than after a clean run"])


def _armed(model, arm, begins):
    """Return a clone of `model` that arms the fault at the first call of a kind, once.

    `begins` is OUTER_SAMPLE for loading and everything after it, PREDICT_NOISE for the steps alone.
    """
    pending = [arm]

    def begin(executor, *args, **kwargs):
        if pending:
            pending.pop()()
        return executor(*args, **kwargs)

    clone = model.clone()
    clone.add_wrapper_with_key(getattr(WrappersMP, begins), "headroom_oom_probe", begin)
    return clone


SWEEP = {
    "first": ("INT", {"default": 1}), "stride": ("INT", {"default": 1}),
    "times": ("INT", {"default": 1}), "kind": ("STRING", {"default": "oom"}),
}


class _Node:
    CATEGORY = CATEGORY
    FUNCTION = "execute"
    RETURN_TYPES = ()
    OUTPUT_NODE = True

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")


class OomSweepSampling(_Node):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {
            "guarded": ("MODEL",), "plain": ("MODEL",), "positive": ("CONDITIONING",),
            "negative": ("CONDITIONING",), "latent": ("LATENT",),
            "steps": ("INT", {"default": 2}), "cfg": ("FLOAT", {"default": 4.0}),
            "sampler": ("STRING", {"default": "euler_ancestral"}), **SWEEP,
            "begins": ("STRING", {"default": "OUTER_SAMPLE"}),
        }}

    def execute(self, guarded, plain, positive, negative, latent, steps, cfg, sampler, first,
                stride, times, kind, begins):
        def sample(model):
            return nodes.common_ksampler(
                model, 7, steps, cfg, sampler, "normal", positive, negative, latent
            )[0]["samples"]

        reference = sample(plain)
        settings = {"times": times, "kind": kind}
        sweep = Sweep(lambda arm: sample(_armed(guarded, arm, begins)), settings)
        answer = sweep(reference, (first, None, stride))
        return {"ui": {"text": [json.dumps(answer)]}}


class OomSweepDecode(_Node):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"guarded": ("VAE",), "plain": ("VAE",), "latent": ("LATENT",),
                             "encode": ("BOOLEAN", {"default": False}), **SWEEP}}

    def execute(self, guarded, plain, latent, encode, first, stride, times, kind):
        generator = torch.Generator().manual_seed(3)
        latents = torch.randn(latent["samples"].shape, generator=generator)
        reference = pixels = plain.decode(latents)
        if encode:
            reference = plain.encode(pixels)

        def run(arm):
            arm()
            return guarded.encode(pixels) if encode else guarded.decode(latents)

        answer = Sweep(run, {"times": times, "kind": kind})(reference, (first, None, stride))
        return {"ui": {"text": [json.dumps(answer)]}}


class OomSweepEncoder(_Node):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"guarded": ("CLIP",), "plain": ("CLIP",), **SWEEP}}

    def execute(self, guarded, plain, first, stride, times, kind):
        def encode(clip):
            return clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))[0][0]

        def run(arm):
            arm()
            return encode(guarded)

        answer = Sweep(run, {"times": times, "kind": kind})(encode(plain), (first, None, stride))
        return {"ui": {"text": [json.dumps(answer)]}}


class OomTinyWan(_Node):
    """A Wan video model of a few hundred kilobytes, loaded the way a real file is."""

    RETURN_TYPES = ("MODEL", "CONDITIONING", "CONDITIONING", "LATENT")
    OUTPUT_NODE = False

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"batch": ("INT", {"default": 1})}}

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def execute(self, batch):
        generator = torch.Generator().manual_seed(11)
        network = comfy.ldm.wan.model.WanModel(
            model_type="t2v", dim=128, ffn_dim=256, freq_dim=256, text_dim=4096, out_dim=16,
            num_heads=1, num_layers=2, operations=comfy.ops.disable_weight_init,
            device="cpu", dtype=torch.float32,
        )
        weights = {
            name: torch.randn(value.shape, generator=generator) * 0.02
            for name, value in network.state_dict().items()
        }
        model = comfy.sd.load_diffusion_model_state_dict(weights)
        text = [
            [[torch.randn(1, length, 4096, generator=generator), {}]] for length in (20, 12)
        ]
        return model, *text, {"samples": torch.zeros(batch, 16, 3, 8, 8)}


def _conditioning(seed):
    generator = torch.Generator().manual_seed(seed)
    return [[torch.randn(1, 77, 768, generator=generator), {}]]


def _encode(clip):
    return clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))


def _sample(model, size, batch, steps):
    latent = {"samples": torch.zeros(batch, 4, size // 8, size // 8)}
    return nodes.common_ksampler(
        model, 7, steps, 4.0, "euler", "normal", _conditioning(1), _conditioning(2), latent
    )


def _decode(vae, size, batch):
    generator = torch.Generator().manual_seed(3)
    return vae.decode(torch.randn(batch, 4, size // 8, size // 8, generator=generator))


def _unload_everything():
    mm.unload_all_models()
    gc.collect()
    mm.soft_empty_cache()


class OomCapacityProbe(_Node):
    """Does one stage of a workflow complete on a GPU of `mib`?"""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {
            "model": ("MODEL",), "clip": ("CLIP",), "vae": ("VAE",), "stage": ("STRING",),
            "mib": ("INT",), "size": ("INT",), "batch": ("INT",), "steps": ("INT",),
        }}

    def execute(self, model, clip, vae, stage, mib, size, batch, steps):
        stages = {
            "encode": lambda: _encode(clip),
            "sample": lambda: _sample(model, size, batch, steps),
            "decode": lambda: _decode(vae, size, batch),
        }
        _unload_everything()
        with _device().locked() as ledger:
            usual, ledger.capacity_bytes = ledger.capacity_bytes, mib << 20
            ledger.stats.reset_peaks()
        answer = {"completed": True}
        try:
            stages[stage]()
        except RuntimeError as error:
            answer = {"completed": False, "error": f"{type(error).__name__}: {str(error)[:500]}"}
        answer["peak_mib"] = round(_device().figures().peak_allocated_bytes / 2**20, 1)
        _unload_everything()
        with _device().locked() as ledger:
            ledger.capacity_bytes = usual
        return {"ui": {"text": [json.dumps(answer)]}}


class OomLargestLayer(_Node):
    """The largest layer of a workflow at batch 1: weights, input and output, in MiB."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "clip": ("CLIP",), "vae": ("VAE",),
                             "size": ("INT",)}}

    def execute(self, model, clip, vae, size):
        found = {}

        def watch(part, root):
            def note(layer, args, output):
                tensors = [t for t in (*args, output) if isinstance(t, torch.Tensor)]
                tensors += list(layer.parameters(recurse=False))
                nbytes = sum(t.numel() * t.element_size() for t in tensors)
                name = f"{part}: {type(layer).__name__} {names[layer]}"
                found[name] = max(found.get(name, 0), nbytes)

            names = {layer: name for name, layer in root.named_modules()}
            leaves = [layer for layer in names if not any(layer.children())]
            return [layer.register_forward_hook(note) for layer in leaves]

        hooks = [
            *watch("text encoder", clip.cond_stage_model), *watch("model", model.model),
            *watch("VAE", vae.first_stage_model),
        ]
        _encode(clip)
        _sample(model, size, 1, 1)
        _decode(vae, 64, 1)
        for hook in hooks:
            hook.remove()
        name = max(found, key=found.get)
        answer = {"mib": round(found[name] / 2**20, 1), "layer": name}
        return {"ui": {"text": [json.dumps(answer)]}}


class OomOverhead(_Node):
    """Time per model call, guarded and plain in turns within one run; nothing fails."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"guarded": ("MODEL",), "plain": ("MODEL",), "rounds": ("INT",),
                             "steps": ("INT",), "size": ("INT",)}}

    def execute(self, guarded, plain, rounds, steps, size):
        times = {"plain": [], "guarded": []}
        _sample(plain, size, 1, steps)
        for turn in range(rounds):
            order = [("plain", plain), ("guarded", guarded)]
            for name, model in order if turn % 2 else reversed(order):
                started = time.process_time()
                _sample(model, size, 1, steps)
                times[name].append((time.process_time() - started) / steps)
        return {"ui": {"text": [json.dumps(times)]}}


NODE_CLASS_MAPPINGS = {
    cls.__name__: cls
    for cls in (
        OomSweepSampling, OomSweepDecode, OomSweepEncoder, OomTinyWan, OomCapacityProbe,
        OomLargestLayer, OomOverhead,
    )
}
