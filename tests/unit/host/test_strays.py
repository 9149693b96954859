"""What models of ComfyUI keep on the GPU beside their weights goes with them."""

import sys
from types import SimpleNamespace

import pytest
import torch

from headroom.host import strays


class Positions(torch.nn.Module):
    """As a part of a model that keeps in an attribute what depends on the picture's size only."""

    def __init__(self, name):
        super().__init__()
        setattr(self, name, {(64, 64): torch.ones(2)})


@pytest.mark.parametrize(("module", "name", "left"), [
    ("comfy.ldm.sam3.sam", "_cache", 0),
    ("comfy_extras.frame_interpolation_models.ifnet", "_warp_grids", 0),
    ("somebodys.pack", "_cache", 1),
])
def test_what_comfyuis_models_keep_for_a_size_of_pictures_is_dropped_and_no_other_pack_s(
    module, name, left
):
    part = type("Positions", (Positions,), {"__module__": module})(name)
    strays.drop_cache(torch.nn.Sequential(part))
    assert len(getattr(part, name)) == left


def test_positions_that_a_model_moves_to_its_gpu_in_a_call_are_moved_back():
    """ACE-Step's lyrics: 20 or 39 MiB. Its own function moves them to where its input is."""
    class Encoding(torch.nn.Module):
        __module__ = "comfy.ldm.ace.lyric_encoder"
        pe = None

        def extend_pe(self, x):
            self.pe = torch.ones(1, 9, 2, device=x.device, dtype=x.dtype)

    part = Encoding()
    strays.drop_cache(torch.nn.Sequential(part))
    assert part.pe is None
    part.pe = torch.ones(1, 9, 2, device="meta", dtype=torch.bfloat16)
    strays.drop_cache(torch.nn.Sequential(part))
    assert (part.pe.device.type, part.pe.dtype) == ("cpu", torch.bfloat16)


@pytest.mark.parametrize(("has_graph", "left"), [(False, 0), (True, 1)])
def test_buffers_of_comfy_kitchen_are_dropped_but_not_below_a_captured_graph(
    monkeypatch, has_graph, left
):
    """One for each size that SVDQuant multiplied. A captured graph has their addresses."""
    name = "comfy_kitchen.backends.cuda"
    kernels = SimpleNamespace(_SVDQUANT_WORKSPACE_CACHE={(0, 4608): torch.ones(2)})
    monkeypatch.setitem(sys.modules, name, kernels)
    monkeypatch.setattr(strays, "has_cuda_graph", lambda: has_graph)
    strays.drop_kernel_buffers()
    assert len(kernels._SVDQUANT_WORKSPACE_CACHE) == left


@pytest.mark.parametrize("module", ["backends.eager.convrot_w4a4", "tensor.int8_utils"])
def test_a_constant_of_comfy_kitchen_does_not_keep_its_segment_on_the_gpu(module):
    """Of 16 KiB, made by ConvRot's own function; in cudaMallocAsync's pool it keeps 32 MiB."""
    convrot = pytest.importorskip(f"comfy_kitchen.{module}")
    made = convrot._build_hadamard(64)
    strays.drop_kernel_buffers()
    assert convrot._build_hadamard(64) is not made


def test_positions_of_which_a_failed_call_made_only_the_length_are_made_again():
    """Jina CLIP 2: ComfyUI's server could encode no prompt of up to this length any more."""
    class RotaryEmbedding(torch.nn.Module):
        __module__ = "comfy.text_encoders.jina_clip_2"
        length, cos = 26, torch.ones(3, 2, device="meta")

        def _update_cos_sin_cache(self, length, device, dtype):
            if length > self.length or self.cos.device != device:
                self.length = length
                self.cos = torch.ones(length, 2, device=device, dtype=dtype)

    part = RotaryEmbedding()
    strays.drop_cache(torch.nn.Sequential(part))
    assert (part.length, part.cos.shape, part.cos.device.type) == (1, (1, 2), "cpu")


@pytest.mark.parametrize(("module", "kept"), [
    ("comfy.ldm.supir.supir_patch", None), ("somebodys.pack", "features")])
def test_an_object_whose_methods_are_patches_drops_what_it_keeps_if_it_is_comfyuis(module, kept):
    class SUPIRPatch:
        __module__ = module
        cached_features = "features"

        def to(self, device):
            self.cached_features = None

        def middle_after(self, kwargs):
            return kwargs

    patch = SUPIRPatch()
    options = {"patches": {"middle_block_after_patch": [patch.middle_after],
                           "forward_timestep_embed_patch": [(str, patch.middle_after)]}}
    strays.put_patches_away(SimpleNamespace(
        model_options={"transformer_options": options}, offload_device=torch.device("cpu")))
    assert patch.cached_features == kept


def injected(module, moves, original_forward=None):
    """A patcher with one LoRA in bypass mode, as ComfyUI's `BypassInjectionManager` makes it."""
    hook = SimpleNamespace(original_forward=original_forward,
                           _move_adapter_weights_to_device=moves.append)
    manager = SimpleNamespace(hooks=[hook])

    def inject_all(patcher):
        return manager.hooks

    inject_all.__module__ = module
    return SimpleNamespace(injections={"bypass_lora": [SimpleNamespace(inject=inject_all)]})


def test_a_lora_in_bypass_mode_leaves_the_gpu_with_its_model():
    moves = []
    strays.put_bypassed_away(injected("comfy.weight_adapter.bypass", moves))
    assert moves == [torch.device("cpu")]
    strays.put_bypassed_away(injected("somebodys.pack", moves))
    strays.put_bypassed_away(injected("comfy.weight_adapter.bypass", moves, len))  # in use
    assert len(moves) == 1


class Pages:
    """A dynamic model's pages, as comfy-aimdo's `ModelVBAR`: each is freed with its last pin."""

    base_addr, max_size = 1000, 3

    def __init__(self, *pins):
        self.pins = list(pins)

    def get_residency(self):
        return [3 if pins else 0 for pins in self.pins]

    def unpin(self, alloc, size):
        assert (alloc, size) == (self.base_addr, self.max_size)
        self.pins = [max(0, pins - 1) for pins in self.pins]


def test_pages_that_a_failed_cast_has_pinned_are_released():
    """Two layers on one page, each of which failed before ComfyUI noted its cast."""
    pages = Pages(2, 0, 1)
    strays.unpin_pages(SimpleNamespace(dynamic_vbars={"cuda:0": pages}))
    assert pages.pins == [0, 0, 0]


@pytest.mark.parametrize("model", [
    SimpleNamespace(), SimpleNamespace(dynamic_vbars={"cuda:0": SimpleNamespace()})])
def test_a_model_whose_pages_cannot_be_asked_is_left_alone(model):
    strays.unpin_pages(model)
