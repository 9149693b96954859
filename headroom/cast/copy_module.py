"""A private copy of an nn.Module in other dtypes, made tensor by tensor."""

import copy
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..base.copies import Copies
from ..base.said import said
from ..base.tensors import storage_key
from ..models.unmanaged import is_restore_hook
from .rules import Wanted
from .running import OUT_OF_MEMORY, drop_hooks
from .tensor import FLOATS, cast_tensor


def copy_module(
    module: torch.nn.Module,
    wanted: Iterable[Wanted],
    values: Mapping[str, torch.Tensor] | None = None,
    shared: Iterable[Any] = (),
) -> tuple[torch.nn.Module, Copies]:
    """Return a copy of `module` with the wanted dtypes, and {id of each old part: its new one}.

    `values` replaces the present weights of that name (ComfyUI's backups of patched ones).
    `shared` objects are not copied. Peak memory: the original, the copy, some MiB. Tied weights
    stay tied; `module` does not change. Raises CastOverflow before it returns anything, and
    ValueError for a module that Python cannot copy.
    """
    memo: dict[int, Any] = {id(item): item for item in shared}
    _copy_parameters(wanted, values or {}, memo)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer.detach().clone()
    try:
        copied = copy.deepcopy(module, memo)
    except (TypeError, AttributeError, RuntimeError, copy.Error, pickle.PickleError) as error:
        if OUT_OF_MEMORY.search(str(error)):
            raise
        raise ValueError(said(
            "Cast bf16 cannot make a private copy of this {model} ({error}): connect the model as "
            "its loader gives it, before nodes that change it.",
            model=type(module).__name__, error=str(error))) from error
    pairs = zip(module.modules(), copied.modules(), strict=True)
    copies: Copies = {id(old): new for old, new in pairs}
    for part in copied.modules():
        drop_hooks(part, is_restore_hook)  # they would move the original back to its device
    return copied, copies


def _copy_parameters(
    wanted: Iterable[Wanted], values: Mapping[str, torch.Tensor], memo: dict[int, Any]
) -> None:
    done: dict[tuple[Any, ...], torch.Tensor] = {}
    for item in wanted:
        old = values.get(item.name, item.parameter).detach()
        key = (storage_key(old), old.storage_offset(), old.shape, old.stride(), item.target)
        if key[0] is None or key not in done:
            change = old.dtype in FLOATS and item.target != old.dtype
            new = cast_tensor(item.name, old, item.target) if change else old.clone()
            done[key] = new
        memo[id(item.parameter)] = torch.nn.Parameter(done[key], item.parameter.requires_grad)


def update_named_dtypes(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Change plain attributes of `module` that name its dtype (`dtype`, `dtypes`) to the new one.

    Models cast their inputs to these; with new weights alone the compute dtype would not change.
    """
    for part in module.modules():
        named = vars(part)
        if named.get("dtype") in FLOATS:
            named["dtype"] = dtype
        if isinstance(named.get("dtypes"), set) and named["dtypes"] <= set(FLOATS):
            named["dtypes"] = {dtype}
