"""The dtypes that a cast changes, and their names."""

import torch

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def short(dtype: torch.dtype) -> str:
    """Return the dtype's name without `torch.`."""
    return str(dtype).removeprefix("torch.")
