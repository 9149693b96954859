"""Cast one tensor and find out what it did to the values: overflow, rounding, values lost to zero.

It works in pieces of 1 MiB, so that there is no second whole tensor beside the result.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .dtypes import short

PIECE_VALUES = 1 << 18


@dataclass
class Rounding:
    """The worst change of any value by a cast; `worst` is relative to the value."""

    worst: float = 0.0
    worst_name: str = ""
    zeroed: int = 0

    @property
    def text(self) -> str:
        """The finding as one sentence."""
        if self.worst == 0.0:
            return "no value was rounded"
        zeroed = f"; {self.zeroed:,} values became 0" if self.zeroed else ""
        return (f"worst relative rounding error: {100 * self.worst:.3g} % in "
                f"{self.worst_name}{zeroed}")


class CastOverflow(ValueError):
    """A finite value does not fit into the dtype."""


def cast_tensor(
    name: str, tensor: torch.Tensor, dtype: torch.dtype, rounding: Rounding
) -> torch.Tensor:
    """Return a copy of `tensor` in `dtype`, same device and strides; note its rounding.

    `name` is for the note and for the error. Raises CastOverflow when a finite value would become
    infinite. Extra memory beside the result: about 2 MiB.
    """
    result = torch.empty_like(tensor, dtype=dtype)
    if is_exact(tensor.dtype, dtype) or tensor.device.type == "meta":
        return result.copy_(tensor)
    for old, new in _pieces(tensor, result):
        new.copy_(old)
        _note(name, old, new, rounding)
    return result


def check_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype, rounding: Rounding) -> None:
    """Note what `cast_tensor` would do, without keeping a copy; same errors."""
    if is_exact(tensor.dtype, dtype) or tensor.device.type == "meta":
        return
    for (old,) in _pieces(tensor):
        _note(name, old, old.to(dtype), rounding)


def is_exact(source: torch.dtype, target: torch.dtype) -> bool:
    """Return whether `target` can represent every value of `source`."""
    old, new = torch.finfo(source), torch.finfo(target)
    smallest_old = old.smallest_normal * old.eps
    smallest_new = new.smallest_normal * new.eps
    return new.max >= old.max and new.eps <= old.eps and smallest_new <= smallest_old


def _pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield matching flat views of tensors of equal shape and strides; the whole if not dense."""
    strides = tensors[0].stride()
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    in_memory_order = [tensor.detach().permute(order) for tensor in tensors]
    if not all(tensor.is_contiguous() for tensor in in_memory_order):
        yield tensors
        return
    flat = [tensor.view(-1) for tensor in in_memory_order]
    for start in range(0, flat[0].numel(), PIECE_VALUES):
        yield tuple(tensor[start : start + PIECE_VALUES] for tensor in flat)


def _saturate(old: torch.Tensor, new: torch.Tensor) -> None:
    """Keep the last 0.4 % of float32's range finite in bfloat16, within its usual rounding error.

    No trained weight is that large, but memory that was never filled can be: ComfyUI makes layers
    that a checkpoint may lack (the text projection of SD1.5's encoder) without setting them.
    """
    if old.dtype == torch.float32 and new.dtype == torch.bfloat16:
        beyond = new.isinf() & old.isfinite()
        limit = torch.finfo(new.dtype).max
        new.copy_(torch.where(beyond, new.clamp(-limit, limit), new))


def _note(name: str, old: torch.Tensor, new: torch.Tensor, rounding: Rounding) -> None:
    wide = torch.float64 if old.dtype == torch.float64 else torch.float32
    before, error = old.to(wide), new.to(wide)
    # The sum is finite only if all values are; to test each value takes longer than the cast.
    if not error.sum().isfinite():
        _saturate(old, new)
        error = new.to(wide)
        if bool((~error.isfinite() & before.isfinite()).any()):
            largest = float(before[before.isfinite()].abs().max())
            raise CastOverflow(
                f"{name} holds {largest:.6g}, but {short(new.dtype)} ends at "
                f"{torch.finfo(new.dtype).max:.6g}"
            )
    # 0/0 and inf-inf are nan: exact zeros and values that were infinite before.
    relative = error.sub_(before).div_(before).abs_().nan_to_num_(0.0, 0.0, 0.0)
    worst = float(relative.max()) if relative.numel() else 0.0
    if worst >= 1.0:
        rounding.zeroed += int(((new == 0) & (old != 0)).sum())
    if worst > rounding.worst:
        rounding.worst, rounding.worst_name = worst, name
