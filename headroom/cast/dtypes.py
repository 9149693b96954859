"""The dtypes that a cast changes."""

import torch

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
