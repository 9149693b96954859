"""Which tensors of a module a cast may touch, and which dtype each of them gets."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch

from ..base.said import Said, said
from .tensor import FLOATS, is_exact, short

# Learned tables of positions: they are small, and rounding them changes the picture.
_POSITIONS = re.compile(r"pos(?:ition(?:al)?)?_?(?:emb|embed|embedding|enc|encoding|table|id)s?")

# Packages whose layers store weights in their own formats behind an ordinary dtype.
_QUANTISERS = ("bitsandbytes", "gguf", "nunchaku", "torchao", "quanto", "awq", "gptqmodel",
               "auto_gptq", "hqq", "compressed_tensors")


# Why a weight is not cast, besides the names in `keep_float32`.
FLOAT_BUFFERS = said("float buffers beside the weights")
STATISTICS = said("running statistics")
POSITION_TABLE = said("position table")

DtypeOf = Callable[[torch.nn.Module, str, torch.Tensor], torch.dtype]


def own_dtype(_part: torch.nn.Module, _name: str, tensor: torch.Tensor) -> torch.dtype:
    """Return the dtype of a weight that has no other dtype on the device."""
    return tensor.dtype


@dataclass(frozen=True)
class CastRules:
    """The dtype to cast to, and name patterns of what is not cast."""

    dtype: torch.dtype
    keep: tuple[str, ...] = ()

    def keeps(self, name: str) -> bool:
        """Return whether a pattern is part of `name`; `*` and `?` stand for any letters."""
        return any(fnmatchcase(name, f"*{pattern}*") for pattern in self.keep)


@dataclass(frozen=True)
class Wanted:
    """One tensor's name and its new dtype; `kept` says why that differs from the rule."""

    name: str
    parameter: torch.nn.Parameter
    source: torch.dtype
    target: torch.dtype
    kept: str = ""

    @property
    def is_castable(self) -> bool:
        """Whether a cast may change it: a floating-point weight with more than one number."""
        return self.source in FLOATS and self.parameter.dim() > 0


def parse_keep(text: str) -> tuple[str, ...]:
    """Return the comma-separated name patterns in `text`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def is_layer(module: torch.nn.Module) -> bool:
    """Return whether `module` computes with its own weights: a layer of torch's, or a leaf."""
    if not module._parameters:
        return False
    is_torch = any(base.__module__.startswith("torch.nn.modules") for base in type(module).__mro__
                   if base is not torch.nn.Module)
    return is_torch or next(module.children(), None) is None


def wanted_dtypes(
    module: torch.nn.Module,
    rules: CastRules,
    dtype_of: DtypeOf = own_dtype,
) -> list[Wanted]:
    """Return what each parameter of `module` will become, each once, whatever its names.

    Floating-point parameters get the rules' dtype. Integer parameters, single numbers (a scale or
    a temperature) and buffers keep theirs. If precision is lost, the names in `keep` and learned
    position tables keep theirs too. A layer computes in one dtype, so a layer with one kept weight
    keeps all, and a layer with float buffers (running statistics, the vectors of a spectral norm)
    is not cast. `dtype_of` returns the dtype that a parameter has on the device, which may differ
    from its own.
    """
    wanted: dict[int, Wanted] = {}
    reasons = _whole_layer_reasons(module, rules)
    for prefix, part in module.named_modules():
        whole = reasons.get(id(part), "")
        for name, parameter in part.named_parameters(prefix, recurse=False):
            leaf = name.rpartition(".")[2]
            source = dtype_of(part, leaf, parameter)
            item = Wanted(name, parameter, source, source)
            if item.is_castable:
                kept = _kept_reason(name, part, rules) or whole
                narrows = not is_exact(source, rules.dtype)
                item = (Wanted(name, parameter, source, source, kept) if kept and narrows
                        else Wanted(name, parameter, source, rules.dtype))
            earlier = wanted.get(id(parameter))
            if earlier is None or (item.kept and not earlier.kept):
                wanted[id(parameter)] = item
    return list(wanted.values())


def layers(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the layers of `module` with their names; a layer inside a layer belongs to it.

    For example attention reads the weights of its output layer and does not call it.
    """
    inside: set[int] = set()
    for prefix, part in module.named_modules():
        if id(part) not in inside and is_layer(part):
            inside.update(id(inner) for inner in part.modules())
            yield prefix, part


def _whole_layer_reasons(module: torch.nn.Module, rules: CastRules) -> dict[int, str]:
    """Return why all weights of a layer are kept, by the ids of the layer and its parts."""
    reasons: dict[int, str] = {}
    for prefix, layer in layers(module):
        names = (f"{prefix}.{name}" if prefix else name for name, _ in layer.named_parameters())
        # In torch a single number gets the dtype of the tensor it is combined with.
        mixes = any(buffer.dtype in FLOATS and buffer.dim() > 0 for buffer in layer.buffers())
        reason = FLOAT_BUFFERS if mixes else ""
        if getattr(layer, "running_mean", None) is not None:
            reason = STATISTICS
        if any(rules.keeps(name) for name in names):
            reason = "keep_float32"
        if reason:
            reasons.update({id(part): reason for part in layer.modules()})
    return reasons


def _kept_reason(name: str, part: torch.nn.Module, rules: CastRules) -> str:
    if rules.keeps(name):
        return "keep_float32"
    return POSITION_TABLE if _is_position_table(name, part) else ""


def _is_position_table(name: str, part: torch.nn.Module) -> bool:
    """Return whether a parameter is a table of positions, not a layer that is applied to them."""
    path = name.lower().split(".")
    if path[-1] == "weight":
        if not isinstance(part, torch.nn.Embedding):
            return False
        path = path[:-1]
    return bool(path) and _POSITIONS.search(path[-1]) is not None


def unmatched(rules: CastRules, wanted: list[Wanted]) -> list[str]:
    """Return the keep patterns that are part of no tensor's name."""
    names = [item.name for item in wanted]
    return [
        pattern for pattern in rules.keep
        if not any(fnmatchcase(name, f"*{pattern}*") for name in names)
    ]


def quantised_reason(module: torch.nn.Module) -> str:
    """Return why `module` must not be cast, such as "GGMLTensor weights"; "" if it may be.

    It checks classes, not `.dtype`: quantised tensors report the dtype that they represent.
    """
    for part in module.modules():
        package = type(part).__module__.split(".")[0].lower()
        if any(word in type(part).__module__.lower().split(".") for word in _QUANTISERS):
            return said("{name} layers ({package})", name=type(part).__name__,
                        package=package)
        for mark in ("quant_format", "layout_type", "quant_state", "scaled_fp8"):
            if getattr(part, mark, None) is not None:
                return said("{name} layers with quantised weights",
                            name=type(part).__name__)
        for name, tensor in _own_tensors(part):
            reason = _tensor_reason(name, tensor, name in part._parameters)
            if reason:
                return reason
    return ""


def _own_tensors(part: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
        if tensor is not None:
            yield name, tensor


def _tensor_reason(name: str, tensor: torch.Tensor, is_parameter: bool) -> str:
    for kind in (type(tensor), type(tensor.data)):
        if kind not in (torch.Tensor, torch.nn.Parameter):
            return _weights_of(kind.__name__)
    if str(tensor.dtype).startswith("torch.float8") or "float4" in str(tensor.dtype):
        return _weights_of(short(tensor.dtype))
    if is_parameter and tensor.dtype in (torch.int8, torch.uint8):
        return _weights_of(short(tensor.dtype))
    if name in ("scale_weight", "weight_scale", "scaled_fp8"):
        return said("weights scaled by `{name}`", name=name)
    return ""


def _weights_of(name: str) -> Said:
    return said("{name} weights", name=name)
