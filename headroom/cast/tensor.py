"""Cast one tensor; a value that does not fit is an error before it does harm.

It works in pieces of 1 MiB, so that there is no second whole tensor beside the result.
"""

from collections.abc import Iterator

import torch

from ..base.said import said

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)  # what a cast changes
PIECE_VALUES = 1 << 18


def short(dtype: torch.dtype) -> str:
    """Return the dtype's name without `torch.`."""
    return str(dtype).removeprefix("torch.")


class CastOverflow(ValueError):
    """A finite value does not fit into the dtype."""


def cast_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a copy of `tensor` in `dtype`, same device and strides.

    Raises CastOverflow, with `name` in it, when a finite value would become infinite. Extra memory
    beside the result: about 1 MiB.
    """
    result = torch.empty_like(tensor, dtype=dtype)
    if is_exact(tensor.dtype, dtype) or tensor.device.type == "meta":
        return result.copy_(tensor)
    for old, new in _pieces(tensor, result):
        new.copy_(old)
        _check(name, old, new)
    return result


def check_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """Raise the errors of `cast_tensor`, without a copy."""
    if is_exact(tensor.dtype, dtype) or tensor.device.type == "meta":
        return
    for (old,) in _pieces(tensor):
        _check(name, old, old.to(dtype))


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


def _check(name: str, old: torch.Tensor, new: torch.Tensor) -> None:
    # The sum is finite only if all values are; to test each value takes longer than the cast.
    if new.sum(dtype=torch.float32).isfinite():
        return
    beyond = new.isinf() & old.isfinite()
    if not beyond.any():
        return
    limit = torch.finfo(new.dtype).max
    if old.dtype == torch.float32 and new.dtype == torch.bfloat16:
        # The last 0.4 % of float32's range stay finite, within the usual rounding error. No trained
        # weight is that large, but memory that was never filled can be: ComfyUI makes layers that a
        # checkpoint may lack (the text projection of SD1.5's encoder) without setting them.
        new.copy_(torch.where(beyond, new.clamp(-limit, limit), new))
        return
    largest = float(old[old.isfinite()].abs().max())
    raise CastOverflow(said(
        "{name} contains {largest}, but {dtype} ends at {limit}", name=name,
        largest=f"{largest:.6g}", dtype=short(new.dtype), limit=f"{limit:.6g}"))
