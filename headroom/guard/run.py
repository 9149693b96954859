"""What OOM Guard remembers during one sampling, and no longer."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..base import device as devices
from ..measure.snapshot import measure_device
from .call import Plan
from .lack import Lack

KEY = "headroom_oom_guard"
# Workspaces and partly filled blocks do not grow with the rows of a piece, so a larger piece takes
# less than in proportion (fake driver: SDXL took 182 MiB a row, and two rows fitted into 353).
_FIXED_SHARE = 0.05
_SPARE = 0.85  # of the room: a call that failed early would have asked for more


@dataclass(frozen=True)
class Piece:
    """Rows `start` to `stop` of a batch; chunks `first` to `last` (exclusive) of its conds."""

    start: int
    stop: int
    first: int
    last: int


def pieces(batch: int, chunks: int, limit: int, independent: bool) -> list[Piece]:
    """Cut `batch` rows into pieces of at most `limit` rows where that keeps the result the same.

    A piece is several whole chunks or some rows of one chunk. Without `independent` images the
    smallest piece is one chunk.
    """
    images = batch // chunks
    if limit >= images or not independent:
        step = max(1, limit // images)
        return [
            Piece(c * images, min(c + step, chunks) * images, c, min(c + step, chunks))
            for c in range(0, chunks, step)
        ]
    return [
        Piece(c * images + row, c * images + min(row + limit, images), c, c + 1)
        for c in range(chunks)
        for row in range(0, images, limit)
    ]


class Run:
    """The state of one sampling: a plan that one step needed is kept for the other steps.

    It is stored in the sampling's own transformer options. So a sampling in another thread, or
    inside this one, has its own state.
    """

    def __init__(
        self, key: Hashable = None, picture: Sequence[int] = (), guider: Any = None
    ) -> None:
        self.key = key
        self.guider = guider
        self.picture = picture  # the shape of its latents, before sound is packed with them
        self.plan = Plan()
        self.keeps_failed_steps = False  # others do: a step is not repeated alone
        self.rows = 0  # the largest batch of the present step
        self.images = 0  # the rows of one conditioning in that batch
        self.smallest = 1  # the fewest rows of a piece that keep the result the same
        self.expected = 0  # the most rows a call of the present step can have
        self.works: int | None = None  # the rows of the pieces with which a step succeeded
        self.too_many: int | None = None  # the fewest rows of a piece that failed
        self.in_use: list[Any] = []  # patchers this sampling needs
        self.conds: dict[str, list[dict[str, Any]]] | None = None
        self.copies: dict[int, tuple[Any, Any]] = {}  # ControlNet -> our splitting copy of it

    def start_step(self, expected: int = 0) -> None:
        """Begin a step; `expected`: the rows it may have, by default those of the last step."""
        self.smallest = 1 if expected else self.smallest
        self.expected, self.rows, self.images = expected or self.rows or self.expected, 0, 0

    def saw(self, rows: int, smallest: int, images: int) -> None:
        """Note one call of the model; the largest of a step is what splitting starts from."""
        if rows >= self.rows:
            self.rows, self.smallest, self.images = rows, smallest, images

    @property
    def widest(self) -> int:
        """Rows of the widest call as it is run now; a guess before the first call of a step."""
        rows, limit = self.rows or self.expected, self.plan.parts
        return rows if limit is None else min(rows, max(limit, self.smallest))

    def fewer_rows(
        self, lack: Lack, buffers_bytes: int = 0, row_bytes: float = 0.0
    ) -> int | None:
        """Return the rows of the largest pieces that can fit; None if it cannot be cut.

        At best what a call needs shrinks in proportion to its rows; the buffers that stream weights
        (`buffers_bytes`) do not shrink. `row_bytes` is ComfyUI's estimate for one row. Where
        nothing is known, the pieces become half as large. After pieces that failed they are as
        large as those that worked before, or half as large at most. For the last attempt they are
        the smallest.
        """
        widest = self.widest
        if widest <= self.smallest:
            return None
        if lack.is_last:
            return self.smallest
        fits = lack.share_of(widest, _SPARE, buffers_bytes)
        if fits is None or self.plan.parts is not None:
            fits = min(widest if fits is None else fits, (widest + 1) // 2)
        elif row_bytes:
            fits = min(fits, int(((lack.room_bytes or 0) - buffers_bytes) / row_bytes))
        if self.works is not None and self.works < widest:
            fits = self.works
        return max(self._even(min(max(fits, self.smallest, 1), widest - 1)), self.smallest)

    def grow(self, took_bytes: int, room_bytes: int) -> bool:
        """Plan the largest pieces that can fit, by what those of a step took; return if they grow.

        If such a piece fails, that costs one failed call, and then the size that worked is used.
        """
        took, self.works = self.widest, self.plan.parts
        if self.plan.parts is None or self.too_many is None or not took_bytes:
            return False
        fits = int(room_bytes / (took_bytes * (1 - _FIXED_SHARE)) * took)
        fits = min(self.too_many - 1, fits)
        if fits <= took or self._pieces(fits) >= self._pieces(took):
            return False
        self.plan = replace(self.plan, parts=self._even(fits))
        return True

    def _even(self, limit: int) -> int:
        """Return the fewest rows of a piece that make no more pieces than `limit` rows do."""
        pieces = self._pieces(limit)
        return next(rows for rows in range(1, limit + 1) if self._pieces(rows) == pieces)

    def _pieces(self, limit: int) -> int:
        rows = max(self.rows or self.expected, 1)
        return len(pieces(rows, rows // (self.images or rows), max(limit, self.smallest), True))

    def end(self) -> None:
        """Drop all references; the options that refer to this object may live longer."""
        self.in_use, self.conds, self.copies, self.guider = [], None, {}, None


class Footprint:
    """What a call took on its device, read from torch's cache afterwards.

    Torch's cache is returned to the driver before each further attempt. So what is cached and
    unused after the call is what the call needed at its peak. Create it right before a call.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = self._cached()

    def bytes(self) -> tuple[int, int] | None:
        """Return what the call took and what it could take; None if it is not known."""
        room, now = measure_device(self._device).room_bytes, self._cached()
        if room is None or now is None or self._before is None:
            return None
        return min(room, max(0, now - self._before)), room

    def _cached(self) -> int | None:
        """Return the bytes that are cached and unused, and those returned to the driver so far.

        What the call returned may have been in use together with what is cached at the end. The
        pool of cudaMallocAsync does not count what it returns, but returns nothing by itself.
        """
        memory = measure_device(self._device)
        reserve = devices.torch_reserve(self._device)
        returned = None if reserve is None else reserve.returned_bytes
        if returned is None and devices.is_pool(self._device):
            returned = 0
        if memory.reserved_bytes is None or memory.allocated_bytes is None or returned is None:
            return None
        return memory.reserved_bytes - memory.allocated_bytes + returned
