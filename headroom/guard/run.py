"""What OOM Guard remembers during one sampling, and nothing longer."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from ..base.said import said
from .call import Plan
from .explain import step_and_why
from .lack import Lack
from .split_batch import piece_count

KEY = "headroom_oom_guard"
# Larger pieces take less than in proportion: workspaces and blocks filled in part do not grow. So
# much too large they may seem (fake driver: SDXL took 182 MiB a row, and two fitted into 353).
_FIXED_SHARE = 0.05
_SPARE = 0.85  # of the room: a call that fails early would have wanted more


class Run:
    """The state of one sampling: the plan that was found necessary stays for its other steps.

    It travels in the run's own transformer options, so a run in another thread or inside this one
    has its own.
    """

    def __init__(self, key: Hashable = None) -> None:
        self.key = key
        self.plan = Plan()
        self.rows = 0  # the largest batch of the present step
        self.images = 0  # its rows of one conditioning
        self.smallest = 1  # the fewest rows that this batch can soundly be cut into
        self.expected = 0  # the most rows a call of the present step can have
        self.works: int | None = None  # the rows of pieces with which a step came to its end
        self.too_many: int | None = None  # the fewest rows with which one failed
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

    @property
    def widest(self) -> int:
        """Rows of the widest call as it is run now; a guess before the first call of a step."""
        rows, limit = self.rows or self.expected, self.plan.parts
        return rows if limit is None else min(rows, max(limit, self.smallest))

    def fewer_rows(
        self, lack: Lack, buffers_bytes: int = 0, row_bytes: float = 0.0
    ) -> int | None:
        """Return the rows of the largest pieces that can fit; None where it cannot be cut.

        What a call needs falls with its rows at most in proportion, and what streaming its weights
        takes (`buffers_bytes`) not at all. `row_bytes` is ComfyUI's estimate for a row. Half where
        nothing tells; when pieces have failed what worked before them, or half at most; and the
        smallest when there is one try left.
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
        """Take the largest pieces that can fit, by what those of a step took; return if any can.

        One of these that does not is one more failed call, after which it is back to what worked.
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
        """Return the fewest rows a piece can have that take no more pieces than `limit` does."""
        pieces = self._pieces(limit)
        return next(rows for rows in range(1, limit + 1) if self._pieces(rows) == pieces)

    def _pieces(self, limit: int) -> int:
        rows = self.rows or self.expected
        return piece_count(rows, self.images or rows, max(limit, self.smallest))

    def why_whole(self) -> list[str]:
        """Return why the batch was not split."""
        rows = self.widest
        if 1 < rows <= self.smallest:
            reason = said("splitting the batch of {rows} would change the result", rows=rows)
        else:
            reason = said("the batch is {rows}", rows=rows)
        return [step_and_why(said("splitting the batch"), reason)]

    def end(self) -> None:
        """Let go of everything; the options that carry this object may live on."""
        self.in_use, self.conds, self.copies = [], None, {}
