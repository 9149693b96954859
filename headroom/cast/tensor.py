"""Cast one tensor; a value that does not fit is an error before it does harm."""

import torch

from ..base.said import said

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)  # what a cast changes


def short(dtype: torch.dtype) -> str:
    """Return the dtype's name without `torch.`."""
    return str(dtype).removeprefix("torch.")


class CastOverflow(ValueError):
    """A finite value does not fit into the dtype."""


def cast_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a copy of `tensor` in `dtype`, same device and strides.

    Raises CastOverflow, with `name` in it, when a finite value would become infinite. It needs no
    memory beside the result, except for a tensor with infinities.
    """
    ends_beyond = check_tensor(name, tensor, dtype)
    result = torch.empty_like(tensor, dtype=dtype).copy_(tensor)
    if ends_beyond:
        limit = torch.finfo(dtype).max
        result.copy_(torch.where(tensor.isfinite(), result.clamp(-limit, limit), result))
    return result


def check_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Raise the errors of `cast_tensor`; return whether finite values are to end at the limit.

    Only the last 0.4 % of float32's range do so in bfloat16, within the usual rounding error. No
    trained weight is that large, but memory that was never filled can be: ComfyUI makes layers that
    a checkpoint may lack (the text projection of SD1.5's encoder) without setting them.
    """
    if is_exact(tensor.dtype, dtype) or tensor.device.type == "meta" or not tensor.numel():
        return False
    largest = _largest(tensor)
    if largest.to(dtype).isfinite():
        return False
    if (tensor.dtype, dtype) == (torch.float32, torch.bfloat16):
        return True
    raise CastOverflow(said(
        "{name} contains {largest}, but {dtype} ends at {limit}", name=name,
        largest=f"{float(largest):.6g}", dtype=short(dtype),
        limit=f"{torch.finfo(dtype).max:.6g}"))


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    """Return the finite value that is farthest from 0, without its sign; 0 if there is none."""
    ends = torch.stack([tensor.min(), tensor.max()]).abs()
    return ends.max() if ends.isfinite().all() else tensor.abs().nan_to_num(0, 0, 0).max()


def is_exact(source: torch.dtype, target: torch.dtype) -> bool:
    """Return whether `target` can represent every value of `source`, both of FLOATS."""
    return source == target or torch.finfo(target).bits > torch.finfo(source).bits
