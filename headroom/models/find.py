"""Find every model inside any value that travels on a ComfyUI wire or lives in a Python script.

Nothing is imported from ComfyUI: its objects are recognised by what they can do, so doubles in
tests, subclasses of other packs and future classes of the host are found alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

Kind = Literal["patcher", "pipeline", "module"]

_LEAVES = (str, bytes, int, float, complex, bool, type(None), torch.Tensor, torch.device)


@dataclass(frozen=True)
class FoundModel:
    """One model: a ComfyUI patcher, a pipeline with components, or a bare nn.Module."""

    kind: Kind
    handle: Any

    @property
    def modules(self) -> list[torch.nn.Module]:
        """The nn.Modules that hold the weights."""
        if self.kind == "patcher":
            return [self.handle.model]
        if self.kind == "pipeline":
            return list(pipeline_modules(self.handle).values())
        return [self.handle]

    @property
    def label(self) -> str:
        """The class name a user would recognise in a report."""
        named = self.handle.model if self.kind == "patcher" else self.handle
        return type(named).__name__


def is_patcher(value: Any) -> bool:
    """Return whether `value` is a ComfyUI ModelPatcher or behaves as one."""
    return (
        callable(getattr(value, "is_clone", None))
        and hasattr(value, "load_device")
        and isinstance(getattr(value, "model", None), torch.nn.Module)
    )


def is_pipeline(value: Any) -> bool:
    """Return whether `value` is a diffusers pipeline or a DiffSynth one."""
    if isinstance(value, type):
        return False
    is_diffsynth = callable(getattr(value, "load_models_to_device", None))
    is_diffusers = hasattr(type(value), "components") and callable(
        getattr(value, "maybe_free_model_hooks", None)
    )
    return is_diffsynth or is_diffusers


def pipeline_modules(pipeline: Any) -> dict[str, torch.nn.Module]:
    """Return the named nn.Modules of a diffusers (`components`) or DiffSynth pipeline."""
    if isinstance(pipeline, torch.nn.Module):
        return dict(pipeline.named_children())
    parts = getattr(pipeline, "components", None)
    named = parts if isinstance(parts, dict) else vars(pipeline)
    return {name: part for name, part in named.items() if isinstance(part, torch.nn.Module)}


def find_models(value: Any) -> list[FoundModel]:
    """Return every model inside `value`, each set of weights once, in the order they are met.

    Looks into MODEL, CLIP, VAE, CONTROL_NET with its chain, CLIP_VISION, STYLE_MODEL,
    UPSCALE_MODEL, GLIGEN, conditioning, lists, tuples and dicts of them, models named by patches,
    pipelines, and bare modules. Costs no more than the walk: no weight is touched.
    """
    found: list[FoundModel] = []
    weights: set[int] = set()
    for model in _walk(value, set()):
        identity = id(model.handle.model) if model.kind == "patcher" else id(model.handle)
        if identity not in weights:
            weights.add(identity)
            found.append(model)
    return found


def _walk(value: Any, seen: set[int]) -> Iterator[FoundModel]:
    if isinstance(value, _LEAVES) or id(value) in seen:
        return
    seen.add(id(value))
    if is_patcher(value):
        yield FoundModel("patcher", value)
        yield from _walk(_models_behind(value), seen)
    elif is_pipeline(value):
        yield FoundModel("pipeline", value)
    elif isinstance(value, torch.nn.Module):
        yield FoundModel("module", value)
    elif isinstance(value, dict):
        yield from _walk(list(value.values()), seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in list(value):
            yield from _walk(item, seen)
    else:
        yield from _walk_object(value, seen)


def _models_behind(patcher: Any) -> list[Any]:
    """Return the further models that a patcher needs: those of its patches and nested ones."""
    behind: list[Any] = []
    for method in ("model_patches_models", "get_nested_additional_models"):
        ask = getattr(patcher, method, None)
        if callable(ask):
            behind.extend(ask())
    return behind


def _walk_object(value: Any, seen: set[int]) -> Iterator[FoundModel]:
    """Look into a host object (CLIP, VAE, ControlNet, descriptor ...) one level deep.

    Patchers come first. A bare module counts only where no patcher was found in the object:
    a ControlNet shows both its patcher and the module inside it, and only the patcher is managed.
    """
    managed = [item for item in _attributes(value) if is_patcher(item)]
    ask = getattr(value, "get_models", None)
    if callable(ask):
        managed.extend(ask())
    yield from _walk(managed, seen)
    yield from _walk(getattr(value, "previous_controlnet", None), seen)
    if not managed:
        modules = [item for item in _attributes(value) if isinstance(item, torch.nn.Module)]
        yield from _walk(modules, seen)


def _attributes(value: Any) -> list[Any]:
    patcher = getattr(value, "patcher", None)
    own = getattr(value, "__dict__", None)
    fields = list(own.values()) if isinstance(own, dict) else []
    slots = [getattr(value, name, None) for name in ("model", "_model")]
    return [item for item in [patcher, *slots, *fields] if item is not None]
