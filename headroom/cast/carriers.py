"""Objects that carry models (CLIP, VAE, CONTROL_NET, pipelines ...) and private copies of them."""

import copy
from collections.abc import Iterator
from typing import Any

import torch

from ..base.copies import Copies, follow
from ..base.inputs import attribute
from ..models.find import is_patcher, is_pipeline, pipeline_modules
from .functions import attributes_of, reaches
from .tensor import FLOATS

MAX_CHAIN = 100


def carried_models(value: Any) -> list[Any]:
    """Return the patchers and modules of which `value` consists, each set of weights once.

    For a patcher or a module: the value itself; for a pipeline: its components; for other objects:
    the patchers among their attributes and those of their chain of ControlNets, or the modules if
    there is no patcher.
    """
    found: list[Any] = []
    for item in _carried(value):
        weights = item.model if is_patcher(item) else item
        if not any(weights is (other.model if is_patcher(other) else other) for other in found):
            found.append(item)
    return found


def _carried(value: Any) -> Iterator[Any]:
    """Yield the models of `value` and of the ControlNets before it. It ends in endless chains too:
    some objects return a value for every attribute."""
    for _ in range(MAX_CHAIN):
        if value is None:
            return
        yield from _own_models(value)
        value = attribute(value, "previous_controlnet")


def _own_models(value: Any) -> Iterator[Any]:
    if is_patcher(value):
        yield value
    elif is_pipeline(value):
        yield from pipeline_modules(value).values()
    elif issubclass(type(value), torch.nn.Module):
        yield value
    elif (items := attributes_of(value)) and not self_casting_reason(value):
        patchers = [item for item in items if is_patcher(item)]
        modules = [item for item in items if isinstance(item, torch.nn.Module)]
        yield from patchers or modules


def self_casting_reason(value: Any) -> str:
    """Return why casting `value` makes no sense; "" for values with weights of their own."""
    if attribute(value, "t2i_model") is not None:
        return "ComfyUI casts a T2I adapter to the sampler's dtype at every use"
    if attribute(value, "control_weights") is not None:
        return ("a Control-LoRA has no model of its own: ComfyUI builds it from the sampled "
                "model, in that model's dtype, at every run")
    if type(attribute(value, "model")).__name__ == "StyleAdapter":
        return "a style model of T2I adapters computes on the CPU, and its norms only take float32"
    return ""


def carry(value: Any, copies: Copies, dtype: torch.dtype) -> Any:
    """Return a copy of `value` with the copies of its models in place of them.

    The copy is shallow: tokenizers, schedulers and settings are shared, containers are not. Helper
    objects that refer to a model are copied too. Attributes naming a floating-point dtype
    (`vae_dtype`, `torch_dtype`) name the new one.
    """
    if id(value) in copies:
        return copies[id(value)]
    copied = copy.copy(value)
    copies[id(value)] = copied
    for name, item in list(vars(value).items()):
        vars(copied)[name] = _carry_attribute(item, copies, dtype)
    return copied


def _carry_attribute(item: Any, copies: Copies, dtype: torch.dtype) -> Any:
    if isinstance(item, torch.dtype):
        return dtype if item in FLOATS else item
    if attributes_of(item) and id(item) not in copies and reaches(item, copies):
        return carry(item, copies, dtype)
    new = follow(item, copies)
    return copy.copy(new) if new is item and type(item) in (dict, list, set) else new
