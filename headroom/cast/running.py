"""How a copy runs: its layers take inputs of any dtype, and foreign parts use torch.autocast."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain
from typing import Any

import torch

from ..base.tensors import tensors_within
from .rules import DtypeOf, is_layer, layers, own_dtype
from .tensor import FLOATS, short

# Torch's layers use the inputs that hooks return; models of these libraries cast for themselves.
_KNOWN = ("torch", "comfy", "comfy_extras", "diffusers", "diffsynth", "transformers")
# Torch refuses other dtypes in these. Models of Wan give their first layer float32 whatever they
# compute in, and patches of packs (KJNodes' NAG) hold tensors in the dtype before the cast.
_STRICT = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
_REFUSES = re.compile("dtype|data ?type|scalar ?type|same type|not implemented for|b?float16|half"
                      "|low precision|type promoting", re.IGNORECASE)
# torch raises a plain RuntimeError when the allocator of the CPU or a device has no memory left.
OUT_OF_MEMORY = re.compile("out of memory|allocat(e|ion)", re.IGNORECASE)


class _Casts:
    """Hooks: they cast the arguments of a layer to its dtype, or its result to that of others."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def inputs(self, _layer: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return _in_dtype(args, self.dtype), _in_dtype(kwargs, self.dtype)

    def output(self, _layer: torch.nn.Module, _args: Any, output: Any) -> Any:
        return _in_dtype(output, self.dtype)


class _Autocast:
    """A method of one module that runs in torch.autocast; for a kept layer, without autocast.

    It replaces that method in the copy only, and is copied and pickled with it.
    """

    def __init__(
        self, module: torch.nn.Module, name: str, dtype: torch.dtype, is_on: bool, own: Any
    ) -> None:
        self._module, self._name = module, name
        self._dtype, self._is_on, self.own = dtype, is_on, own

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._method())

    def _method(self) -> Any:
        return self.own or getattr(type(self._module), self._name).__get__(self._module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with self._context([args, kwargs]):
                return self._method()(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError) as error:
            self._explain(error)
            raise

    def _context(self, inputs: Any) -> Any:
        tensors = chain(tensors_within(inputs), self._module.parameters())
        device = next((tensor.device.type for tensor in tensors), "cpu")
        is_available = getattr(torch.amp, "is_autocast_available", lambda _device: True)
        if not is_available(device):
            return nullcontext()
        return torch.autocast(device, self._dtype, self._is_on)

    def _explain(self, error: Exception) -> None:
        """Put a sentence in front of torch's error: what the cast has to do with it."""
        text = str(error)
        told = f"Cast bf16 made this {type(self._module).__name__} {short(self._dtype)}"
        if self._is_on and told not in text and _REFUSES.search(text) \
                and not OUT_OF_MEMORY.search(text):
            error.args = (
                f"{told}, and torch refuses an operation of it: name the weights of that part in "
                f"keep_float32, or connect the model without Cast bf16. PyTorch: {text}",
                *error.args[1:],
            )


def arm(
    module: torch.nn.Module, compute: torch.dtype, everywhere: bool, dtype_of: DtypeOf = own_dtype
) -> None:
    """Let a copy run in `compute`; a second call replaces the first. Only for our own copies.

    Layers of foreign parts, in a model of ComfyUI layers of torch's own, linear layers and
    convolutions, or all layers if `everywhere`, take inputs of any dtype. Layers kept in another
    dtype compute in it and return `compute`; so do foreign parts of which all weights were kept. It
    costs one Python call for each layer, and copies of activations where dtypes differ.
    """
    for part in module.modules():
        disarm(part)
    foreign = list(_foreign(module))
    whole = [part for top in foreign for part in _kept_whole(top, compute, dtype_of)]
    in_foreign = {id(part) for top in foreign for part in top.modules()}
    in_whole = {id(part) for top in whole for part in top.modules() if part is not top}
    is_half, is_comfyui = compute.itemsize == 2, type(module).__module__.startswith("comfy.")
    for part in [*(layer for _, layer in layers(module)), *whole]:
        dtype, is_foreign = _dtype(part, dtype_of), id(part) in in_foreign
        is_plain = is_comfyui and (type(part).__module__.startswith("torch.")
                                   or isinstance(part, _STRICT))
        # ComfyUI's layers can cast their own weights to the input.
        casts_itself = getattr(part, "comfy_cast_weights", False)
        is_armed = (everywhere or is_foreign or is_plain) and not casts_itself
        if dtype is None or not is_armed:
            continue
        part.register_forward_pre_hook(_Casts(dtype).inputs, with_kwargs=True)
        if dtype != compute and id(part) not in in_whole:
            part.register_forward_hook(_Casts(compute).output)
        if dtype != compute and is_foreign and is_half:
            _run(part, "forward", compute, is_on=False)
    for top in foreign if is_half else ():
        for name in _methods(type(top)):
            _run(top, name, compute, is_on=True)


def disarm(part: torch.nn.Module) -> None:
    """Remove from one module what `arm` added."""
    drop_hooks(part, lambda hook: isinstance(getattr(hook, "__self__", None), _Casts))
    for name, value in list(vars(part).items()):
        if isinstance(value, _Autocast):
            del vars(part)[name]
            if value.own is not None:
                vars(part)[name] = value.own


def drop_hooks(part: torch.nn.Module, is_unwanted: Callable[[Any], bool]) -> None:
    for hooks in (part._forward_pre_hooks, part._forward_hooks):
        for key in [key for key, hook in hooks.items() if is_unwanted(hook)]:
            del hooks[key]
            part._forward_pre_hooks_with_kwargs.pop(key, None)


def _run(part: torch.nn.Module, name: str, dtype: torch.dtype, is_on: bool) -> None:
    vars(part)[name] = _Autocast(part, name, dtype, is_on, vars(part).get(name))


def _foreign(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the outermost parts of `module` whose code may not handle the dtype by itself."""
    if type(module).__module__.partition(".")[0] not in _KNOWN:
        yield module
        return
    for part in module.children():
        yield from _foreign(part)


def _methods(kind: type[Any]) -> Iterator[str]:
    """Yield the public methods that not every module has: `forward`, `decode` and others."""
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        of_every_module = name != "forward" and hasattr(torch.nn.Module, name)
        if inspect.isfunction(method) and not name.startswith("_") and not of_every_module \
                and not inspect.isgeneratorfunction(method):
            yield name


def _kept_whole(
    module: torch.nn.Module, compute: torch.dtype, dtype_of: DtypeOf
) -> Iterator[torch.nn.Module]:
    """Yield the outermost parts in `module`, apart from layers, that are called and have no weight
    in `compute`."""
    for part in module.children():
        dtypes = {dtype_of(owner, name, weight) for owner in part.modules()
                  for name, weight in owner.named_parameters(recurse=False) if weight.dim()}
        is_called = not isinstance(part, (torch.nn.ModuleList, torch.nn.ModuleDict))
        if is_called and dtypes & set(FLOATS) and compute not in dtypes:
            if not is_layer(part):
                yield part
        else:
            yield from _kept_whole(part, compute, dtype_of)


def _dtype(layer: torch.nn.Module, dtype_of: DtypeOf) -> torch.dtype | None:
    dtypes = (dtype_of(layer, name, weight) for name, weight in layer.named_parameters())
    return next((dtype for dtype in dtypes if dtype in FLOATS), None)


def _in_dtype(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype in FLOATS and value.dtype != dtype else value
    if isinstance(value, Mapping):
        changed = {key: _in_dtype(item, dtype) for key, item in value.items()}
        return changed if type(value) is dict else value
    if type(value) in (tuple, list):
        return type(value)(_in_dtype(item, dtype) for item in value)
    return value
