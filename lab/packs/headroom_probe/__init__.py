"""Nodes that let a test look into the server: identity, loaded models, weights, RAM."""

import hashlib
import runpy
from pathlib import Path

import comfy.model_management as mm
import comfy.model_patcher
import psutil
import torch
from comfy.patcher_extension import PatcherInjection

SHARED = runpy.run_path(str(Path(__file__).resolve().parents[1] / "node.py"))
ANY, Node, Probe = (SHARED[name] for name in ("ANY", "Node", "Shown"))


class ProbeSame(Probe):
    """Is `a` the very same object as `b`?"""

    INPUTS, OPTIONAL = {"a": (ANY,)}, {"b": (ANY,)}

    def run(self, a, b=None):
        return self.shown({"same": a is b, "type": type(a).__name__}, a)


class ProbeLoaded(Probe):
    """The loaded models by class name, after `after` is ready."""

    OPTIONAL = {"after": (ANY,), "model": (ANY,)}

    def run(self, after=None, model=None):
        patcher = getattr(model, "patcher", model)
        entries = [entry for entry in mm.current_loaded_models if entry.model is not None]
        answer = {
            "classes": sorted(type(entry.model.model).__name__ for entry in entries),
            "modules": sorted(id(entry.model.model) for entry in entries),
            "module": id(patcher.model) if patcher is not None else None,
            "rss_mib": psutil.Process().memory_info().rss / 2**20,
            "allocated_bytes": (
                torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
            ),
        }
        return self.shown(answer, after)


class ProbeWeights(Probe):
    """A digest of every weight of a model, and how many bytes they are."""

    INPUTS, OPTIONAL = {"model": (ANY,)}, {"after": (ANY,)}

    def run(self, model, after=None):
        module = getattr(model, "patcher", model).model
        digest, size = hashlib.sha256(), 0
        for name, tensor in module.state_dict().items():
            data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(name.encode() + data.numpy().tobytes())
            size += data.numel()
        return self.shown({"digest": digest.hexdigest(), "mib": size / 2**20}, after)


class ProbeTensor(Probe):
    """A digest of every tensor in a LATENT, an IMAGE or a CONDITIONING."""

    INPUTS = {"value": (ANY,)}

    def run(self, value):
        digest = hashlib.sha256()
        for tensor in self.tensors(value):
            data = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
            digest.update(data.view(torch.uint8).numpy().tobytes())
        return self.shown({"digest": digest.hexdigest()}, value)

    def tensors(self, value):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                yield from self.tensors(value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self.tensors(item)


class ProbeKeepsCache(Node):
    """A diffusion model that keeps tensors on its device, as HiDream O1 keeps keys and values."""

    INPUTS = {"model": ("MODEL",), "latent": ("LATENT",), "mib": ("INT", {})}

    def run(self, model, latent, mib):
        network = model.model.diffusion_model
        network.kept = [torch.zeros(mib << 20, dtype=torch.uint8, device=mm.get_torch_device())]
        network.clear_kv_cache = network.kept.clear
        return (latent,)


class ProbeModule(Node):
    """A bare nn.Module that ComfyUI does not manage."""

    INPUTS = {"mib": ("INT", {"default": 8})}

    def run(self, mib):
        module = torch.nn.Linear(1024, mib * 256, bias=False)
        return (module.to(mm.get_torch_device()),)


kept = None
by_size = {}


class ProbeHold(ProbeModule):
    """Keeps such a module where packs keep theirs; keeps nothing if `where` is empty."""

    OUTPUT_NODE = True
    on_class = None
    INPUTS = {"where": ("STRING", {"default": ""}), "mib": ("INT", {"default": 8})}

    def run(self, where, mib):
        global kept
        kept = self.model = ProbeHold.on_class = None
        by_size.clear()
        made = super().run(mib)[0]
        if where == "module global":
            kept = made
        elif where == "node object":
            self.model = Loader(made)
        elif where == "cache dict":
            by_size[mib] = {"model": [made]}
        elif where == "class":
            ProbeHold.on_class = made
        elif where == "patcher":
            # As video wrappers do: ComfyUI never loads it, the pack's own nodes move its weights.
            devices = mm.get_torch_device(), torch.device("cpu")
            made = comfy.model_patcher.ModelPatcher(made, *devices)
        elif where == "patch":  # as IPAdapter does
            held = Loader([{"ipadapter": made}])
            made = comfy.model_patcher.ModelPatcher(
                torch.nn.Identity(), mm.get_torch_device(), torch.device("cpu"))
            made.set_model_attn2_replace(held, "input", 1, 0)
        elif where == "ComfyUI":
            made = torch.nn.Sequential(RoomForWork(1024, mib * 256, bias=False))
            made = comfy.model_patcher.ModelPatcher(
                made, mm.get_torch_device(), torch.device("cpu"))
            mm.load_models_gpu([made])
        elif where == "injected":  # as AnimateDiff puts its motion modules into a model's blocks
            motion, made = made, torch.nn.Sequential(torch.nn.Linear(1024, mib * 256, bias=False))
            made = comfy.model_patcher.ModelPatcher(
                made, mm.get_torch_device(), torch.device("cpu"))
            made.set_injections("motion", [PatcherInjection(
                inject=lambda patcher: patcher.model.append(motion),
                eject=lambda patcher: patcher.model.pop(1))])
            mm.load_models_gpu([made])
        models = ("result", "patcher", "patch", "ComfyUI", "injected")
        return (made if where in models else None,)


class RoomForWork(torch.nn.Linear):
    """Says that it is larger than it is, as GGUF's layers do: ComfyUI leaves them room to work."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}temp.weight"] = torch.empty(8 << 20, device="meta")


class Loader:
    def __init__(self, model):
        self.model = model


class Begun(comfy.model_patcher.ModelPatcher):
    """A patcher without a model, as in the moment in which another thread makes it."""

    def __init__(self):
        pass

    def __del__(self):
        pass


class ProbeBegun(Probe):
    """A patcher that has no model yet."""

    def run(self):
        begun = Begun()
        return self.shown({"has_model": hasattr(begun, "model")}, begun)


NODE_CLASS_MAPPINGS = {
    cls.__name__: cls
    for cls in (ProbeSame, ProbeLoaded, ProbeWeights, ProbeTensor, ProbeModule, ProbeHold,
                ProbeBegun, ProbeKeepsCache)
}
