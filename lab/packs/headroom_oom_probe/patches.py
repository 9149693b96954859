"""For the sweeps: a patch with a model of its own, a second device, an interrupt."""

import json

import comfy.ldm.modules.diffusionmodules.openaimodel as unet
import comfy.lora
import comfy.model_management as mm
import comfy.model_patcher
import comfy.ops
import comfy.weight_adapter
import torch
from comfy.patcher_extension import WrappersMP

from .sweep import ModelNode, ProbeNode, disarm, fault


class OomNestedPatch(ModelNode):
    """A model patch that brings a small model of its own, which ComfyUI loads beside the first."""

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def run(self, model):
        layer = torch.nn.Sequential(comfy.ops.manual_cast.Linear(320, 320))
        generator = torch.Generator().manual_seed(5)
        weights = {n: torch.randn(v.shape, generator=generator) * 0.05
                   for n, v in layer.state_dict().items()}
        layer.load_state_dict(weights)
        patcher = comfy.model_patcher.ModelPatcher(
            layer, mm.get_torch_device(), torch.device("cpu"))
        clone = model.clone()
        clone.set_model_attn2_output_patch(_Nested(patcher))
        return (clone,)


class _Nested:
    def __init__(self, patcher):
        self.patcher = patcher

    def __call__(self, hidden, extra_options):
        return hidden + self.patcher.model(hidden)

    def to(self, device_or_dtype):
        return self

    def models(self):
        return [self.patcher]


class OomSplitOverCpu(ModelNode):
    """ComfyUI's MultiGPU CFG Split, with the CPU in the place of a second GPU."""

    def run(self, model):
        import comfy.multigpu  # only newer ComfyUIs have it

        other = model.deepclone_multigpu(new_load_device=torch.device("cpu"))
        other.is_multigpu_base_clone = True
        clone = model.clone()
        clone.set_additional_models("multigpu", [other])
        clone.match_multigpu_clones()
        comfy.multigpu.GPUOptionsGroup().register(clone)
        return (clone,)


class OomInterruptOnce(ModelNode):
    """The user interrupts in the very call that runs out of memory."""

    calls = 0

    def run(self, model):
        OomInterruptOnce.calls = 0

        def interrupted(executor, *args, **kwargs):
            OomInterruptOnce.calls += 1
            mm.interrupt_current_processing()
            raise torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory.")

        clone = model.clone()
        clone.add_wrapper_with_key(WrappersMP.APPLY_MODEL, "headroom_oom_probe", interrupted)
        return (clone,)


class OomInterruptCalls(ProbeNode):
    def run(self):
        return {"ui": {"text": [json.dumps(OomInterruptOnce.calls)]}}


class OomLoraLeftOut(ProbeNode):
    """ComfyUI works out two weights with a LoRA, without a guard, and memory runs out in both."""

    def run(self):
        up, down = torch.ones(64, 4), torch.ones(4, 64)
        adapter = comfy.weight_adapter.lora.LoRAAdapter(set(), (up, down, 4.0, None, None, None))
        weight = torch.zeros(64, 64, device=mm.get_torch_device())
        failed = 0
        for name in ("first", "second"):
            fault(at=3)  # the product of the two, which are on the device by then
            comfy.lora.calculate_weight([(1.0, adapter, 1.0, None, None)], weight, name)
            failed += disarm().failed
        answer = {"failed": failed, "patched": bool(weight.any())}
        return {"ui": {"text": [json.dumps(answer)]}}


class _Unaddable:
    shape = (1,)

    def __radd__(self, other):
        raise torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory.")


class OomControlLeftOut(ProbeNode):
    """ComfyUI adds a ControlNet's output, without a guard, and memory runs out in that."""

    def run(self):
        hidden = torch.zeros(1, device=mm.get_torch_device())
        result = unet.apply_control(hidden, {"middle": [_Unaddable()]}, "middle")
        answer = {"failed": 1, "patched": bool(result.any())}
        return {"ui": {"text": [json.dumps(answer)]}}


class OomExtractLeftOut(ProbeNode):
    """ComfyUI extracts a LoRA of one weight, and memory runs out in that."""

    def run(self):
        from comfy_extras.nodes_lora_extract import LORAType, calc_lora_model

        layer = torch.nn.Sequential(comfy.ops.disable_weight_init.Linear(8, 8, bias=False))
        torch.nn.init.ones_(layer[0].weight)
        patcher = comfy.model_patcher.ModelPatcher(
            layer, mm.get_torch_device(), torch.device("cpu"))
        mm.load_models_gpu([patcher])
        fault(at=3)
        found = calc_lora_model(patcher, 4, "", "lora.", {}, LORAType.STANDARD)
        answer = {"failed": disarm().failed, "patched": bool(found)}
        return {"ui": {"text": [json.dumps(answer)]}}
