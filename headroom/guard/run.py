"""What OOM Guard remembers during one sampling run, and nothing longer."""

from collections.abc import Callable
from typing import Any

from .footprint import Footprint
from .shortage import Shortage, lacked_so_far
from .split_batch import piece_count

KEY = "headroom_oom_guard"
# Larger pieces take less than in proportion: workspaces and blocks filled in part do not grow. So
# much too large they may seem (fake driver: SDXL took 182 MiB a row, and two fitted into 353; with
# 0.07 SD1.5 took four rows after three, and the next prompt failed with them).
_FIXED_SHARE = 0.05


class GuardedRun:
    """The state of one sampling: the split found necessary stays for its remaining steps.

    It travels in the run's own transformer options, so a run in another thread or inside this one
    has its own.
    """

    def __init__(self) -> None:
        self.limit: int | None = None  # rows a call of the model may have; None: as they come
        self.works: int | None = None  # the limit with which a step last came to its end
        self.too_many: int | None = None  # the fewest rows with which one failed
        self.reserve = 1  # how many times the estimate is kept free when loading
        self.keep_bytes = 0  # to keep free when loading, as an earlier run has taught
        self.need_bytes = 0  # what a step took, measured after a recovery
        self.missing_bytes: int | None = None  # what the last failed step lacked
        self.begins_fresh = False  # its first step has yet to begin with an empty cache
        self.buffers: tuple[int, ...] = ()  # to make before its first step, as an earlier run had
        self.rows = 0  # the largest batch of the present step
        self.images = 0  # its rows of one conditioning
        self.smallest = 1  # the fewest rows that this batch can soundly be cut into
        self.expected = 0  # the most rows a call of the present step can have
        self.alone = False  # no other model may be loaded
        self.in_use: list[Any] = []  # patchers this sampling needs
        self.conds: dict[str, list[dict[str, Any]]] | None = None
        self.copies: dict[int, tuple[Any, Any]] = {}  # ControlNet -> our splitting copy of it

    def start_step(self, expected: int = 0) -> None:
        """Begin a step; `expected`: the rows it may have, by default those of the one before."""
        self.smallest = 1 if expected else self.smallest
        self.expected, self.rows, self.images = expected or self.rows or self.expected, 0, 0

    def saw(self, rows: int, smallest: int, images: int = 0) -> None:
        """Note one call of the model; the largest of a step is what splitting starts from."""
        if rows >= self.rows:
            self.rows, self.smallest, self.images = rows, smallest, images

    def reserve_for(self, estimate: Callable[[], float]) -> float:
        """Return how many times the estimate of a step is to be kept free when loading."""
        if not self.keep_bytes:
            return self.reserve
        return max(self.reserve, self.keep_bytes / max(estimate(), 1.0))

    def lacked(self, shortage: Shortage) -> None:
        """Note what a failed step lacked."""
        self.missing_bytes = lacked_so_far(self.missing_bytes, shortage)

    def worked(self, footprint: Footprint | None) -> None:
        """Note that a step came to its end after a recovery, and take the largest pieces that fit.

        By what the pieces took, larger ones are expected to fit. One of these that does not is one
        more failed call, after which it is back to what worked.
        """
        took = self.widest
        self.works = self.limit
        if footprint is None or not footprint.need_bytes:
            return
        self.need_bytes = footprint.need_bytes
        most = self.too_many - 1 if self.too_many else took
        if self.limit is None or most <= took:
            return
        need_bytes = footprint.need_bytes * (1 - _FIXED_SHARE)
        fits = min(most, int(footprint.room_bytes / need_bytes * took))
        if self.pieces(fits) < self.pieces(took):
            self.limit = self.even(fits)
            grown_bytes = footprint.need_bytes * self.limit // took
            self.need_bytes = min(grown_bytes, footprint.room_bytes)

    def pieces(self, limit: int) -> int:
        """Return in how many pieces of at most `limit` rows the widest call runs."""
        rows = self.rows or self.expected
        return piece_count(rows, self.images or rows, max(limit, self.smallest))

    def even(self, limit: int) -> int:
        """Return the fewest rows a piece can have that take no more pieces than `limit` does."""
        pieces = self.pieces(limit)
        return next(rows for rows in range(1, limit + 1) if self.pieces(rows) == pieces)

    def end(self) -> None:
        """Let go of everything; the options that carry this object may live on."""
        self.in_use, self.conds, self.copies = [], None, {}

    @property
    def widest(self) -> int:
        """Rows of the widest call as it is run now; a guess before the first call of a step."""
        rows = self.rows or self.expected
        return rows if self.limit is None else min(rows, max(self.limit, self.smallest))
