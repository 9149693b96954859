"""CUDA streams and events of the simulated GPU: every operation is finished when it returns."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from .tensor import DEVICE


class Stream:
    """The one stream there is; waiting for it takes no time."""

    device = DEVICE
    device_index = DEVICE.index
    device_type = 1
    stream_id = 0
    cuda_stream = 0
    priority = 0

    def __init__(self, *args: Any, **options: Any) -> None: ...

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """A mark of this moment."""
        event = event or Event()
        event.record()
        return event


class Event:
    """A moment in the only stream."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._moment = 0.0

    def record(self, stream: Any = None) -> None:
        """Set the mark to now."""
        self._moment = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to `end`."""
        return (end._moment - self._moment) * 1000

    def query(self) -> bool:
        """Whether the work before the mark is done."""
        return True

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...


@contextlib.contextmanager
def stream_context(stream: Any) -> Iterator[Any]:
    """`torch.cuda.stream(...)`: there is nothing to switch to."""
    yield stream
