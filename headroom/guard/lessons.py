"""What worked for a call that once ran out of memory, so that it need not fail again.

Kept for as long as the server runs. A lesson counts while there is no more memory than when it was
learned: with as much more as was missing then, the call as it came could succeed.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..base.device import same_device
from ..base.said import joined, said
from ..host.adapter import current_host
from ..measure.journal import note_action

_MOST = 256  # kinds of calls
_NOTABLE_SHARE = 1 / 64  # of the room: what else is on a card varies by as much


@dataclass(frozen=True)
class _Lesson:
    way: Any
    room_bytes: int
    missing_bytes: int


_lessons: OrderedDict[Hashable, _Lesson] = OrderedDict()


def learn(key: Hashable, way: Any, room: int | None, missing_bytes: int) -> None:
    """Keep `way`, a value that is not changed any more, for calls of this key.

    room: `room_bytes` while nothing of the call was on the device. A key of None teaches nothing.
    """
    if room is None or key is None:
        return
    _lessons[key] = _Lesson(way, room, max(missing_bytes, int(room * _NOTABLE_SHARE)))
    _lessons.move_to_end(key)
    while len(_lessons) > _MOST:
        _lessons.popitem(last=False)


def amend(key: Hashable, way: Any) -> None:
    """Let calls of this key begin in another way, if they have a lesson."""
    if key in _lessons:
        _lessons[key] = replace(_lessons[key], way=way)


def recall(key: Hashable, device: torch.device | None) -> Any | None:
    """Return the way for calls of this key, None where there is none or more memory than then."""
    lesson = _lessons.get(key)
    if lesson is None:
        return None
    room = room_bytes(device)
    if room is None or room >= lesson.room_bytes + lesson.missing_bytes:
        del _lessons[key]
        return None
    return lesson.way


def forget_all() -> None:
    """Forget every lesson."""
    _lessons.clear()


def identity(patcher: Any) -> Hashable:
    """Return what two models have in common that need the same memory for the same call."""
    model = patcher.model
    dtype = getattr(patcher, "model_dtype", lambda: None)()
    return type(model).__name__, int(patcher.model_size()), str(dtype), str(patcher.load_device)


def note_remembered(words: Sequence[str]) -> None:
    """Put into the record that a call begins with what an earlier one has taught."""
    note_action("guard", 0.0, said("{way}: remembered from an earlier run",
                                   way=joined(" and ", words)))


def room_bytes(device: torch.device | None) -> int | None:
    """Return the bytes that a call could have there with no weights of ComfyUI's on the device.

    Costs some tens of microseconds. None on the CPU, and where the driver cannot tell.
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
