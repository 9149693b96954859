"""The plans that worked for calls that ran out of memory, so that the next call does not fail.

They are kept while the server runs. A lesson counts until the room has grown by what was missing
when it was learned: then the call could succeed without a plan.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..base.device import same_device
from ..host.adapter import current_host

_MOST = 256  # calls with different keys
_NOTABLE_SHARE = 1 / 64  # of the room: the memory of other programs varies by as much


@dataclass(frozen=True)
class _Lesson:
    plan: Any
    room_bytes: int
    missing_bytes: int


_lessons: OrderedDict[Hashable, _Lesson] = OrderedDict()


def learn(key: Hashable, plan: Any, room: int | None, missing_bytes: int) -> None:
    """Keep `plan`, a value that nobody changes, for calls of this key.

    room: the `room_bytes` while nothing of the call was on the device. A key of None is not kept.
    """
    if room is None or key is None:
        return
    _lessons[key] = _Lesson(plan, room, max(missing_bytes, int(room * _NOTABLE_SHARE)))
    _lessons.move_to_end(key)
    while len(_lessons) > _MOST:
        _lessons.popitem(last=False)


def amend(key: Hashable, plan: Any) -> None:
    """Replace the plan in the lesson for this key, if there is one."""
    if key in _lessons:
        _lessons[key] = replace(_lessons[key], plan=plan)


def recall(key: Hashable, device: torch.device | None) -> Any | None:
    """Return the plan for calls of this key; None without a lesson, or with more room than then."""
    lesson = _lessons.get(key)
    if lesson is None:
        return None
    room = room_bytes(device)
    if room is None or room >= lesson.room_bytes + lesson.missing_bytes:
        del _lessons[key]
        return None
    return lesson.plan


def forget_all() -> None:
    """Forget every lesson; a dry run begins like that."""
    _lessons.clear()


def identity(patcher: Any) -> Hashable:
    """Return a key that is equal for models that need the same memory for the same call."""
    model = patcher.model
    dtype = getattr(patcher, "model_dtype", lambda: None)()
    return type(model).__name__, int(patcher.model_size()), str(dtype), str(patcher.load_device)


def room_bytes(device: torch.device | None) -> int | None:
    """Return the bytes that a call could use on the device if ComfyUI had no weights there.

    It costs some tens of microseconds. None on the CPU, and where the driver cannot tell.
    """
    host = current_host()
    if host is None or device is None or device.type == "cpu":
        return None
    available: int | None = host.available_bytes(device)
    if available is None:
        return None
    loaded = sum(
        host.unloadable_bytes(entry) for entry in host.loaded_entries()
        if same_device(entry.device, device)
    )
    return available + int(loaded)
