"""Find every model inside any value on a ComfyUI wire or in a Python script.

Nothing is imported from ComfyUI. Its objects are recognised by their attributes and methods, so
doubles in tests, subclasses in other packs and future classes of ComfyUI are found too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..base.inputs import attribute

Kind = Literal["patcher", "pipeline", "module"]

_LEAVES = (str, bytes, int, float, complex, bool, type(None), torch.Tensor, torch.device)


@dataclass(frozen=True)
class FoundModel:
    """One model: a ComfyUI patcher, a pipeline with components, or a bare nn.Module."""

    kind: Kind
    handle: Any

    @property
    def modules(self) -> list[torch.nn.Module]:
        """The nn.Modules with the weights."""
        if self.kind == "patcher":
            return [self.handle.model]
        if self.kind == "pipeline":
            return list(pipeline_modules(self.handle).values())
        return [self.handle]

    @property
    def label(self) -> str:
        named = self.handle.model if self.kind == "patcher" else self.handle
        return type(named).__name__


def is_patcher(value: Any) -> bool:
    """Return whether `value` is a ComfyUI ModelPatcher or has the same methods."""
    return (
        callable(attribute(value, "is_clone"))
        and attribute(value, "load_device") is not None
        and isinstance(attribute(value, "model"), torch.nn.Module)
    )


def is_pipeline(value: Any) -> bool:
    """Return whether `value` is a diffusers pipeline or a DiffSynth one."""
    is_diffsynth = callable(attribute(type(value), "load_models_to_device"))
    is_diffusers = hasattr(type(value), "components") and callable(
        attribute(value, "maybe_free_model_hooks")
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
    """Return every model inside `value`, each set of weights once, in the order they are found.

    Looks into MODEL, CLIP, VAE, CONTROL_NET with its chain, CLIP_VISION, STYLE_MODEL,
    UPSCALE_MODEL, GLIGEN, conditioning, lists, tuples and dicts of them, models named by patches,
    pipelines, and bare modules. It costs only the walk: no weight is read.
    """
    found: dict[int, FoundModel] = {}
    for model in _walk(value):
        weights = model.handle.model if model.kind == "patcher" else model.handle
        found.setdefault(id(weights), model)
    return list(found.values())


def _walk(value: Any) -> Iterator[FoundModel]:
    """Yield every model below `value`, without recursion: lists may be nested to any depth."""
    seen: set[int] = set()
    stack: list[Iterator[Any]] = [iter([value])]
    while stack:
        item = next(stack[-1], stack)
        if item is stack:
            stack.pop()
        elif id(item) not in seen and not issubclass(type(item), _LEAVES):
            seen.add(id(item))
            model = _model(item)
            if model is not None:
                yield model
            stack.append(_inside(item, model))


def _model(value: Any) -> FoundModel | None:
    if is_patcher(value):
        return FoundModel("patcher", value)
    if is_pipeline(value):
        return FoundModel("pipeline", value)
    is_module = issubclass(type(value), torch.nn.Module)
    return FoundModel("module", value) if is_module else None


def _inside(value: Any, model: FoundModel | None) -> Iterator[Any]:
    """Return where to search next: a patcher's other models, or the parts of a value."""
    cls = type(value)
    if model is not None:
        return iter(_models_behind(value) if model.kind == "patcher" else [])
    if issubclass(cls, dict):
        return iter(list(value.values()))
    if issubclass(cls, (list, tuple, set, frozenset)):
        return iter(list(value))
    return iter(_parts(value))


def _models_behind(patcher: Any) -> list[Any]:
    """Return the other models that a patcher needs: those of its patches and nested ones."""
    behind: list[Any] = []
    for method in ("model_patches_models", "get_nested_additional_models"):
        ask = getattr(patcher, method, None)
        if callable(ask):
            behind.extend(ask())
    return behind


def _parts(value: Any) -> list[Any]:
    """Return the models in an object of ComfyUI (CLIP, VAE, ControlNet ...), one level deep.

    Patchers come first. A bare module counts only if the object has no patcher: a ControlNet has
    both its patcher and the module inside it, and only the patcher is managed.
    """
    managed = [item for item in _attributes(value) if is_patcher(item)]
    ask = attribute(value, "get_models")
    if callable(ask):
        managed.extend(ask())
    modules = [item for item in _attributes(value) if isinstance(item, torch.nn.Module)]
    return [*managed, attribute(value, "previous_controlnet"), *([] if managed else modules)]


def _attributes(value: Any) -> list[Any]:
    own = attribute(value, "__dict__")
    fields = list(own.values()) if isinstance(own, dict) else []
    first = [attribute(value, name) for name in ("patcher", "model", "_model")]
    # The first entry decides: some objects have a dict of a hundred thousand words.
    named = [item for field in fields if type(field) is dict and field
             and is_patcher(next(iter(field.values()))) for item in field.values()]
    return [item for item in [*first, *fields, *named] if item is not None]
