"""Frames of videos in RAM: a dry run leaves out work on each of their numbers.

They take gigabytes, and each operation would write as much again. Nobody looks at them: what the
fake device decodes is zeros. The system's own zeros take no RAM before somebody writes to them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

LARGE_BYTES = 65 << 20  # above any mask whose values a node may ask for: 64 MiB are 4096 x 4096
aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.clone.default, aten.copy_.default, aten.cat.default,
          aten.stack.default, aten.constant_pad_nd.default, aten.zero_.default,
          aten.zeros_like.default, aten.ones_like.default, aten.repeat.default)
NEW = (aten.zeros.default, aten.ones.default, aten.full.default)
RESIZES = ("upsample", "adaptive_avg_pool2d")  # in the names of what makes pictures of another size
Tensor = torch.Tensor


def uncomputed(
    func: Any, args: Any, kwargs: dict[str, Any], given: Sequence[Tensor]
) -> Tensor | None:
    """Return zeros in place of the result of a function on each number of frames. None if the
    function must run: for other tensors, or if it needs several numbers at a time.
    """
    device = torch.device(kwargs.get("device") or "cpu").type
    if func in NEW:
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        is_large = math.prod(args[0]) * dtype.itemsize >= LARGE_BYTES and dtype.is_floating_point
        if not is_large or device != "cpu":
            return None
        return untouched(torch.empty(args[0], dtype=dtype, device="meta"))
    most_bytes = max((one.nbytes for one in given), default=0)
    if func is aten.repeat.default:
        most_bytes *= math.prod(args[1])
    if func._schema.is_mutable:
        most_bytes = max(most_bytes, args[0].untyped_storage().nbytes())
    is_each = torch.Tag.pointwise in func.tags or func in COPIES or any(
        word in func._schema.name for word in RESIZES)
    if most_bytes < LARGE_BYTES or not is_each:
        return None
    if device != "cpu" or func._schema.overload_name.endswith("out") or not all(
            one.device.type == "cpu" and one.is_floating_point() for one in given):
        return None
    if func._schema.is_mutable:
        return args[0]  # type: ignore[no-any-return]
    meta = tree_map_only(Tensor, lambda one: one.to("meta"), (args, kwargs))
    shaped = func(*meta[0], **{**meta[1], **({"device": "meta"} if "device" in kwargs else {})})
    return untouched(shaped)


def untouched(shaped: Tensor) -> Tensor:
    """Return zeros like a tensor without data. `torch.empty` may give what others left in a heap,
    and `torch.zeros` writes; numpy asks for memory that is zeros already.
    """
    held = np.zeros(shaped.untyped_storage().nbytes(), np.uint8)
    return torch.from_numpy(held).view(shaped.dtype).as_strided(shaped.size(), shaped.stride())


class Frames(TorchDispatchMode):
    """Leaves out work on frames, for code that neither joins nor repeats small tensors."""


def _dispatch(
    _mode: Frames, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
) -> Any:
    given = [one for one in args if isinstance(one, Tensor)]
    is_small = given and all(one.untyped_storage().nbytes() < LARGE_BYTES for one in given)
    made = None if is_small else uncomputed(func, args, kwargs or {}, given)
    return func(*args, **(kwargs or {})) if made is None else made


# Given later: of a class that is made with it, PyTorch would let Dynamo look at each call.
Frames.__torch_dispatch__ = _dispatch  # type: ignore[method-assign, assignment]
