"""What a dry run does once a shape: further tiles, frames and models of a class take the same.

Looking at each operation (`headroom_dry_integers`) takes a sixth to a fourth of a run's time. What
has been seen not to need it runs without.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map, tree_map_only

from .headroom_dry_change import change_once

FEW_BYTES = 4 << 20  # a tile of a latent, and no weights


def shorten_tiles(copied_bytes: Callable[[], int], frames: Callable[[], Any]) -> None:
    """Let a tile be run once a shape, and be blended outside of the modes that look at each
    operation: ComfyUI multiplies each place where two tiles meet by itself, 100,000 of a sound.
    """
    def shortened(blend: Any, samples: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        once = _once_a_shape(function, copied_bytes)
        with _disable_current_modes() as modes:
            def seen(tile: Any) -> Any:
                with _disable_current_modes(), ExitStack() as stack:
                    for mode in modes:
                        stack.enter_context(mode)
                    return once(tile)

            with nullcontext() if samples.ndim == 3 else frames():
                return blend(samples, seen, *args, **kwargs)

    change_once(sys.modules.get("comfy.utils"), "tiled_scale_multidim", shortened)


def look_at_one_frame(copied_bytes: Callable[[], int], node: Callable[[], Any]) -> None:
    """Let SAM 3 look at one frame of each shape in a node, as a decode does at one tile."""
    latest: list[Any] = ["no node", None]

    def shortened(look: Any, *args: Any, **kwargs: Any) -> Any:
        if latest[0] is not node():
            latest[:] = node(), _once_a_shape(look, copied_bytes)
        return latest[1](*args, **kwargs)

    module = sys.modules.get("comfy.ldm.sam3.detector")
    change_once(getattr(module, "SAM3Model", None), "forward", shortened)


def _once_a_shape(function: Any, copied_bytes: Callable[[], int]) -> Any:
    """A further call takes what the first of its shapes took, unless weights were copied for it."""
    known: dict[Any, Any] = {}

    def once(*args: Any, **kwargs: Any) -> Any:
        kind = _shapes((args, *sorted(kwargs.items())))
        if kind in known:
            return tree_map(lambda one: torch.empty_like(one[0], device=one[1])
                            if isinstance(one, _Shaped) else one, known[kind],
                            is_leaf=lambda one: isinstance(one, _Shaped))
        before = copied_bytes()
        made = function(*args, **kwargs)
        if copied_bytes() - before < FEW_BYTES:
            known[kind] = tree_map_only(
                torch.Tensor, lambda one: _Shaped(one.to("meta"), one.device), made)
        return made

    return once


class _Shaped(NamedTuple):
    """What a tensor was, without its memory."""

    meta: torch.Tensor
    device: torch.device


def run_unseen(reads: Callable[[], int]) -> None:
    """Let models of a class run outside of the modes that look at each operation, once one has run
    inside of them without that `reads()` counted one more, and returned nothing but floats: they
    take a sixth of a run's time.
    """
    without: dict[Any, bool] = {}

    def unseen(run: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        inner = getattr(model, "diffusion_model", getattr(model, "transformer", None))
        kind = (type(model), type(inner), _shapes(args),
                tuple((name, _shapes(one)) for name, one in kwargs.items() if one is not None))
        if without.get(kind):
            with _disable_current_modes():
                return run(model, *args, **kwargs)
        before = reads()
        made = run(model, *args, **kwargs)
        without[kind] = reads() == before and _is_of_floats(made)
        return made

    for module, owner, name in (("comfy.model_base", "BaseModel", "apply_model"),
                                ("comfy.sd1_clip", "SDClipModel", "forward"),
                                ("comfy.text_encoders.llama", "Llama2_", "forward")):
        change_once(getattr(sys.modules.get(module), owner, None), name, unseen)

    def with_network(make: Any, vae: Any, *args: Any, **kwargs: Any) -> None:
        make(vae, *args, **kwargs)
        for name in ("encode", "decode"):
            change_once(type(vae.first_stage_model), name, unseen)

    change_once(getattr(sys.modules.get("comfy.sd"), "VAE", None), "__init__", with_network)


def load_unseen(known: Callable[[Any], Any]) -> None:
    """Let files be read and weights be loaded outside of these modes: nothing is computed then.

    `known`: notes of an integer on the device, such as a model's positions, that its value is real.
    """
    def unseen(load: Any, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return load(*args, **kwargs)

    def loaded(load: Any, patcher: Any, *args: Any, **kwargs: Any) -> Any:
        made = unseen(load, patcher, *args, **kwargs)
        for one in patcher.model.buffers():
            known(one)
        return made

    change_once(sys.modules.get("comfy.utils"), "load_torch_file", unseen)
    change_once(torch.nn.Module, "load_state_dict", unseen)
    for name in ("ModelPatcher", "ModelPatcherDynamic"):
        change_once(getattr(sys.modules.get("comfy.model_patcher"), name, None), "load", loaded)


def _shapes(value: Any) -> Any:
    """What decides how a call goes: shapes, lengths and kinds, no values."""
    if isinstance(value, torch.Tensor):
        return value.shape
    if isinstance(value, (list, tuple)):
        return tuple(map(_shapes, value))
    return type(value)


def _is_of_floats(made: Any) -> bool:
    if isinstance(made, dict):
        made = tuple(made.values())
    if isinstance(made, (list, tuple)):
        return all(map(_is_of_floats, made))
    return not isinstance(made, torch.Tensor) or made.is_floating_point()
