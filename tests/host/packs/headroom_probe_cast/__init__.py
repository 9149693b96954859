"""Nodes that let a test look at dtypes, identities and loaded bytes, and make odd models."""

import gc
import runpy
from pathlib import Path

import comfy.model_management as mm
import comfy.model_patcher
import torch

SHARED = runpy.run_path(str(Path(__file__).resolve().parents[4] / "lab/packs/node.py"))
ANY, Node, Shown = (SHARED[name] for name in ("ANY", "Node", "Shown"))


def patcher_of(value):
    for item in (value, getattr(value, "patcher", None), *vars(value).values()):
        if isinstance(item, comfy.model_patcher.ModelPatcher):
            return item
    return None


def module_of(value):
    patcher = patcher_of(value)
    return patcher.model if patcher is not None else value.model


class CastProbe(Shown):
    """What a model is made of, after `after` is ready; `full` names every weight."""

    INPUTS, OPTIONAL = {"model": (ANY,)}, {"after": (ANY,)}

    def run(self, model, after=None):
        patcher, module = patcher_of(model), module_of(model)
        infer = getattr(module, "get_dtype_inference", getattr(module, "get_dtype", None))
        answer = {
            "weights": {name: str(p.dtype)[6:] for name, p in module.named_parameters()},
            "buffers": {name: str(b.dtype)[6:] for name, b in module.named_buffers()},
            "bytes": sum(p.numel() * p.element_size() for p in module.parameters()),
            "module": id(module),
            "compute": str(infer())[6:] if infer else None,
            "parent": getattr(patcher, "parent", None) is not None,
            "base": str(getattr(patcher, "clone_base_uuid", id(module))),
            "stamps": sorted({
                str(value)[6:] for part in module.modules() for name, value in vars(part).items()
                if name == "weight_comfy_model_dtype"
            }),
        }
        return self.shown(answer, model)


class CastLoad(Shown):
    """Bytes of one model loaded alone: by ComfyUI's count, and as asked of the allocator.

    What the allocator then gives depends on the cached blocks that it has; what it is asked for
    does not.
    """

    INPUTS, OPTIONAL = {"model": (ANY,)}, {"after": (ANY,)}

    def run(self, model, after=None):
        mm.unload_all_models()
        gc.collect()
        key = "requested_bytes.all.current"
        before = torch.cuda.memory_stats()[key]
        mm.load_models_gpu([patcher_of(model)])
        requested = torch.cuda.memory_stats()[key] - before
        answer = {"loaded": patcher_of(model).loaded_size(), "requested": requested}
        return self.shown(answer, model)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    return [t for item in items if isinstance(item, (dict, list, tuple, torch.Tensor))
            for t in flat(item)]


class CastNear(Shown):
    """The distance of the tensors in `b` from those in `a`, relative to the size of `a`."""

    INPUTS = {"a": (ANY,), "b": (ANY,)}

    def run(self, a, b):
        pairs = list(zip(flat(a), flat(b), strict=True))
        distance = sum((x.double().cpu() - y.double().cpu()).square().sum() for x, y in pairs)
        size = sum(x.double().cpu().square().sum() for x, _ in pairs)
        answer = {
            "equal": all(torch.equal(x, y) for x, y in pairs),
            "error": float((distance / size).sqrt()),
            "dtypes": [str(y.dtype)[6:] for _, y in pairs],
        }
        return self.shown(answer, b)


class OddTensor(torch.Tensor):
    pass


class OwnPatcher(comfy.model_patcher.ModelPatcher):
    """A pack's class with a `clone` that hands on whatever it is asked, as that of ComfyUI-GGUF."""

    def clone(self, *args, **kwargs):
        return super().clone(*args, **kwargs)


class CastOdd(Node):
    """A MODEL over two small layers that most casts cannot take."""

    INPUTS = {"kind": (["odd class", "fp8", "compiled", "own patcher"],)}

    def run(self, kind):
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
        net.requires_grad_(False)
        weight = net[1].weight
        if kind == "odd class":
            weight = weight.data.as_subclass(OddTensor)
        if kind == "fp8":
            weight = weight.data.to(torch.float8_e4m3fn)
        if kind in ("odd class", "fp8"):
            net[1].weight = torch.nn.Parameter(weight, requires_grad=False)
        offload = torch.device("cpu")
        made = OwnPatcher if kind == "own patcher" else comfy.model_patcher.ModelPatcher
        patcher = made(net, mm.get_torch_device(), offload)
        if kind == "compiled":
            patcher.add_object_patch("0", torch.nn.Sequential(net[0]))
        return (patcher,)


class CastUpscaler(Node):
    """LTX's latent upscaler by 1.5, which filters with a buffer, in small."""

    def run(self):
        from comfy.ldm.lightricks.latent_upsampler import LatentUpsampler

        torch.manual_seed(0)
        net = LatentUpsampler(torch.nn, in_channels=4, mid_channels=32, num_blocks_per_stage=1,
                              spatial_scale=1.5, rational_resampler=True).requires_grad_(False)
        return (comfy.model_patcher.ModelPatcher(net, mm.get_torch_device(), torch.device("cpu")),)


class CastUpscaled(Node):
    """A latent of one frame, upscaled as LTXVLatentUpsampler does it: in the model's dtype."""

    RETURN_TYPES = ("LATENT",)
    INPUTS = {"model": (ANY,)}

    def run(self, model):
        latent = torch.ones(1, 4, 1, 8, 8, dtype=next(model.model.parameters()).dtype)
        return ({"samples": model.model(latent).float()},)


class Streamed(comfy.model_patcher.ModelPatcher):
    """A patcher that says that it streams its weights, as those of dynamic VRAM do."""

    def is_dynamic(self):
        return True

    def set_in_use_by_current_prompt(self, in_use):
        """Newer hosts tell dynamic patchers this around every prompt; there is nothing to pin."""


class CastStreamed(Node):
    """A MODEL that claims to be dynamic, with the recipe of its loader or without."""

    INPUTS = {"model": (ANY,), "recipe": ("BOOLEAN", {"default": True})}

    def run(self, model, recipe):
        streamed = Streamed(model.model, model.load_device, model.offload_device)
        streamed.cached_patcher_init = model.cached_patcher_init if recipe else None
        return (streamed,)


NODE_CLASS_MAPPINGS = {
    cls.__name__: cls
    for cls in (CastProbe, CastLoad, CastNear, CastOdd, CastUpscaler, CastUpscaled, CastStreamed)
}
