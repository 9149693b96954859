"""What a cast model has for itself."""

import copy
from types import SimpleNamespace

import pytest
import torch
from support.comfyui import on_comfyui


@pytest.fixture
def cast(monkeypatch):
    return on_comfyui(monkeypatch, "cast", comfy__model_management={}, ours__core={
        "is_dynamic": lambda patcher: False}, ours__strays={})


class Patch:
    """As ComfyUI's hypernetwork, or with a picture as its ControlNet patches of Qwen-Image."""

    def __init__(self):
        self.hypernet = {2: torch.nn.Linear(2, 2)}
        self.picture = torch.ones(2)

    def to(self, where):
        self.hypernet[2] = self.hypernet[2].to(where)
        self.picture = self.picture.to(where)
        return self


class Patcher(SimpleNamespace):
    def clone(self):
        return copy.deepcopy(self, {id(one): one for one in self.shared})


def test_a_patch_that_is_cast_and_moved_with_the_copy_stays_the_originals(cast):
    patch, wrapper = Patch(), Patch()
    patcher = Patcher(
        shared=[patch, wrapper], object_patches={}, wrappers={}, callbacks={}, additional_models={},
        model_options={"model_function_wrapper": wrapper, "transformer_options": {
            "patches": {"attn1_patch": [patch]}, "patches_replace": {"attn1": {"a": patch}}}})
    copied = cast.private_patcher(patcher, torch.nn.Linear(2, 2), {}, None)
    options = copied.model_options["transformer_options"]
    own, = options["patches"]["attn1_patch"]
    assert options["patches_replace"]["attn1"]["a"] is own
    assert copied.model_options["model_function_wrapper"].to(torch.bfloat16) is not wrapper
    assert wrapper.picture.dtype == torch.float32
    own.to(torch.bfloat16)
    assert own.hypernet[2].weight.dtype == own.picture.dtype == torch.bfloat16
    assert patch.hypernet[2].weight.dtype == patch.picture.dtype == torch.float32
    known = Patch()  # a part of the model, which is copied with it
    copied = cast.private_patcher(patcher, torch.nn.Linear(2, 2), {id(patch): known}, None)
    assert copied.model_options["transformer_options"]["patches"]["attn1_patch"] == [known]
