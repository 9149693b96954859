"""The buffers through which weights stream, made at once as large as the last run left them.

ComfyUI's pager lets them grow in the middle of a call, when torch's cache has taken what was free
and gives nothing back to anybody but torch. A first prompt in which other weights held that memory
came through, and the next one failed: SD1.5 on 678 MiB, by 50 MiB, with 430 unused in the cache.
"""

from collections.abc import Hashable
from typing import Any

from . import lessons


def learn(guard: Any, kind: Hashable, patcher: Any, room: int | None) -> None:
    """Keep how large the buffers are after a run of this kind that had to stream weights.

    guard: the host's part for OOM Guard. room: `room_bytes` from before the run.
    """
    sizes = guard.buffer_sizes(patcher.load_device)
    if any(sizes) and guard.streamed_bytes(patcher) >= sum(sizes):
        lessons.learn(_key(kind), sizes, room, 0)


def recall(kind: Hashable, room: int | None) -> tuple[int, ...]:
    """Return the sizes of the buffers for such a run; empty where none had to stream weights."""
    sizes: tuple[int, ...] = lessons.recall(_key(kind), room) or ()
    return sizes


def _key(kind: Hashable) -> Hashable:
    return "buffers", kind
