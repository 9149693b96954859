"""What casting does to one set of weights, in bytes; or the reason why nothing is cast."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch.nn.parameter import is_lazy

from ..base.copies import Copies
from ..base.said import Said, joined, said
from ..models.unmanaged import is_shell
from .rules import (
    POSITION_TABLE,
    CastRules,
    DtypeOf,
    Wanted,
    own_dtype,
    quantised_reason,
    unmatched,
    wanted_dtypes,
)
from .tensor import short


@dataclass
class CastModel:
    """The result for one set of weights.

    `copies` has the new object for the id of each old one; it is empty if nothing was cast, and
    then `reason` says why. Bytes are counted by dtype, over weights and buffers. `in_ram`: the
    copy has its weights in RAM, not in the model's file.
    """

    label: str
    reason: str = ""
    copies: Copies = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    kept: list[Wanted] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    in_ram: bool = True

    @property
    def saved_bytes(self) -> int:
        """Bytes by which the weights became smaller; negative if they grew."""
        return sum(self.before.values()) - sum(self.after.values())


def prepare(
    module: torch.nn.Module, rules: CastRules, dtype_of: DtypeOf, quantised: str = ""
) -> tuple[CastModel, list[Wanted]]:
    """Return the result so far and the wanted dtypes; with a reason if there is nothing to cast.

    Raises ValueError for a module that cannot be cast. `quantised`: why the whole model counts as
    quantised, if its modules do not show it.
    """
    label = type(module).__name__
    _refuse(module, _reasons(module))
    quantised = quantised_reason(module) or quantised
    if quantised:
        return CastModel(label, said("not cast: it is quantised ({reason}), and casting would undo "
                                     "that", reason=quantised)), []
    if dtype_of is own_dtype and is_shell(module):
        _refuse(module, [said("its pack loads its weights when it uses it")])
    wanted = wanted_dtypes(module, rules, dtype_of)
    result = CastModel(label, _nothing_to_do(wanted, rules))
    buffers = {id(buffer): buffer for buffer in module.buffers()}
    for buffer in buffers.values():
        _add(result.before, buffer.dtype, buffer)
        _add(result.after, buffer.dtype, buffer)
    for item in wanted:
        _add(result.before, item.source, item.parameter)
        _add(result.after, item.target, item.parameter)
    result.kept = [item for item in wanted if item.kept and item.is_castable]
    result.notes = [
        f"keep_float32: '{name}' is in no weight's name" for name in unmatched(rules, wanted)
    ]
    return result, wanted


def _nothing_to_do(wanted: list[Wanted], rules: CastRules) -> str:
    floats, dtype = [item for item in wanted if item.is_castable], short(rules.dtype)
    if not floats:
        return said("it has no floating-point weights")
    if any(item.target != item.source for item in floats):
        return ""
    if all(item.source == rules.dtype or item.kept == POSITION_TABLE for item in floats):
        return said("already {dtype}", dtype=dtype)
    if any(item.source == rules.dtype for item in floats):
        return said("already {dtype}, apart from what is kept", dtype=dtype)
    reasons = joined(", ", dict.fromkeys(item.kept for item in floats if item.kept))
    return said("every weight is kept ({reasons})", reasons=reasons)


def _add(counts: dict[str, int], dtype: torch.dtype, tensor: torch.Tensor) -> None:
    counts[short(dtype)] = counts.get(short(dtype), 0) + tensor.numel() * dtype.itemsize


def _refuse(module: torch.nn.Module, reasons: Iterable[Said]) -> None:
    """Raise ValueError with the first reason why a private copy could not run, or be private."""
    for reason in reasons:
        raise ValueError(said(
            "Cast bf16 cannot cast this {model}: {reason}; connect a plain model as its loader "
            "gives it, before nodes that compile or change it.",
            model=type(module).__name__, reason=reason))


def _reasons(module: torch.nn.Module) -> Iterator[Said]:
    """Yield what cannot be copied, with the part's name.

    Compiled and scripted modules have the old weights in their own code; sparse weights cannot have
    another dtype; weights without a shape have no values.
    """
    for prefix, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            yield said("{part} is TorchScript, which cannot be copied in another dtype",
                       part=prefix or said("it"))
        if hasattr(part, "_orig_mod"):
            yield said("{part} is compiled over the old weights", part=prefix or said("it"))
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            yield said("{name} has no shape before its first use", name=name)
        elif tensor.layout != torch.strided:
            yield said("{name} is a {layout} tensor", name=name,
                       layout=str(tensor.layout).removeprefix("torch."))
