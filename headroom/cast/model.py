"""Cast one set of weights: a bare nn.Module, or the module under a ComfyUI patcher."""

from functools import partial
from typing import Any

import torch

from ..base.copies import Copies
from ..base.said import said, sentence_of
from ..models.unmanaged import has_offload_hook
from .copy_module import copy_module, update_named_dtypes
from .functions import reaches_a_part, refuse_functions
from .result import CastModel, prepare
from .rules import CastRules, Wanted, own_dtype, wanted_dtypes
from .running import arm
from .tensor import CastOverflow, check_tensor, short


def cast_module(
    module: torch.nn.Module, rules: CastRules, is_component: bool = False
) -> CastModel:
    """Cast a module that nobody manages; `module` itself does not change.

    The copy's layers take inputs of any dtype, because their caller does not know about the cast;
    a pipeline knows the dtype of its components. Raises ValueError if a value does not fit, if the
    module cannot be copied, or if another library moves it.
    """
    result, wanted = prepare(module, rules, own_dtype)
    if result.reason:
        return result
    if has_offload_hook(module):
        raise ValueError(said(
            "Cast bf16 expects a {model} without offload hooks, which belong to the old weights: "
            "cast first, then enable offloading on the result.", model=result.label))
    refuse_functions(module)
    copied, result.copies = _copied(module, wanted, rules)
    update_named_dtypes(copied, rules.dtype)
    arm(copied, rules.dtype, everywhere=not is_component or _is_mixed(wanted))
    return result


def cast_patcher(patcher: Any, rules: CastRules) -> CastModel:
    """Cast the weights under `patcher` for a new patcher with the same patches.

    The source is unloaded first, so that no LoRA is merged into its weights; it and its clones do
    not change. A dynamic model is read from its file again and not copied. Raises the errors of
    `cast_module`, and ValueError if something on the patcher works on the old weights.
    """
    host_cast = _host_cast()
    make, dtype_of = _copy_patched, own_dtype
    is_dynamic = host_cast.host.is_dynamic(patcher)
    if is_dynamic:
        make, dtype_of = _reread, host_cast.device_dtype
    result, wanted = prepare(patcher.model, rules, dtype_of, host_cast.quantised_reason(patcher))
    if not result.reason and is_dynamic and host_cast.loader_recipe(patcher) is None:
        result.reason = said("not cast: dynamic VRAM streams it from a file, and its loader left "
                             "no way to read that file again")
    if result.reason:
        return result
    refuse_functions(patcher.model, is_read_again=is_dynamic)
    if reason := host_cast.compiled_reason(patcher) or _bound_reason(patcher):
        raise ValueError(said(
            "Cast bf16 cannot cast this {model}: it carries {reason} over the old weights; connect "
            "Cast bf16 before the node that added that.", model=result.label, reason=reason))
    host_cast.unload(patcher)
    module, result.copies = make(patcher, rules)
    update_named_dtypes(module, rules.dtype)
    host_cast.use_compute_dtype(module, rules.dtype)
    host_cast.cast_kernels(module, rules.dtype)
    arm(module, rules.dtype, everywhere=_is_mixed(wanted), dtype_of=dtype_of)
    again = partial(_patcher_of, rules)
    copied = host_cast.private_patcher(patcher, module, result.copies, again)
    result.copies[id(patcher)] = copied
    if is_dynamic:
        result.in_ram = False
        result.notes.append("dynamic VRAM reads the weights from the file: no copy in RAM")
    result.notes.extend(host_cast.compute_notes(patcher, rules.dtype))
    return result


def _host_cast() -> Any:
    from ..host import cast as host_cast

    return host_cast


def _patcher_of(rules: CastRules, patcher: Any) -> Any:
    return cast_patcher(patcher, rules).copies.get(id(patcher), patcher)


def _is_mixed(wanted: list[Wanted]) -> bool:
    return len({item.target for item in wanted if item.is_castable}) > 1


def _bound_reason(patcher: Any) -> str:
    """Return which injection works on parts of the module, as a LoRA in bypass mode does."""
    return next((said("the injection '{name}'", name=str(key))
                 for key, injected in patcher.injections.items()
                 if reaches_a_part(injected, patcher.model)), "")


def _copied(
    module: torch.nn.Module, wanted: list[Wanted], rules: CastRules, **options: Any
) -> tuple[torch.nn.Module, Copies]:
    try:
        return copy_module(module, wanted, **options)
    except CastOverflow as error:
        raise _refused(module, error, rules) from error


def _refused(module: torch.nn.Module, error: Exception, rules: CastRules) -> ValueError:
    return ValueError(said(
        "Cast bf16 cannot cast this {model} to {dtype}: {error}; choose bfloat16, or name that "
        "tensor in keep_float32. Nothing was changed.",
        model=type(module).__name__, dtype=short(rules.dtype), error=sentence_of(error)))


def _copy_patched(patcher: Any, rules: CastRules) -> tuple[torch.nn.Module, Copies]:
    """Copy the module under a classic patcher, without patches."""
    host_cast = _host_cast()
    module = patcher.model
    wanted = wanted_dtypes(module, rules)  # again: unloading may have replaced parameters
    values, shared = host_cast.weight_backups(patcher), host_cast.shared_parts(module)
    copied, copies = _copied(module, wanted, rules, values=values, shared=shared)
    host_cast.start_unloaded(copied)
    host_cast.stamp(copied, {item.name: item.target for item in wanted})
    return copied, copies


def _reread(patcher: Any, rules: CastRules) -> tuple[torch.nn.Module, Copies]:
    """Read a dynamic model from its file again; its weights get the wanted dtypes on the GPU."""
    host_cast = _host_cast()
    module = patcher.model
    wanted = wanted_dtypes(module, rules, host_cast.device_dtype)
    try:
        for item in wanted:
            if item.target != item.source:
                check_tensor(item.name, item.parameter.detach(), item.target)
    except CastOverflow as error:
        raise _refused(module, error, rules) from error
    copied = host_cast.reload(host_cast.loader_recipe(patcher)).model
    new = dict(copied.named_modules())
    copies: Copies = {
        id(part): new[name] for name, part in module.named_modules() if name in new
    }
    host_cast.stamp(copied, {item.name: item.target for item in wanted})
    return copied, copies
