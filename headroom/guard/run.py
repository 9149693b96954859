"""What OOM Guard remembers during one sampling, and nothing longer."""

from collections.abc import Hashable
from typing import Any

from ..base.said import said
from .call import Plan
from .explain import step_and_why
from .lack import Lack
from .split_batch import piece_count

KEY = "headroom_oom_guard"
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

    def fewer_rows(self, lack: Lack, buffers_bytes: int = 0) -> int | None:
        """Return the rows of the largest pieces that can fit; None where it cannot be cut.

        What a call needs falls with its rows at most in proportion, and what streaming its weights
        takes (`buffers_bytes`) not at all. Half where nothing tells, at most half when pieces have
        failed, and the smallest when there is one try left.
        """
        widest = self.widest
        if widest <= self.smallest:
            return None
        if lack.is_last:
            return self.smallest
        is_first = self.plan.parts is None
        fits = lack.share_of(widest, _SPARE if is_first else 1.0, buffers_bytes)
        if fits is None or not is_first:
            fits = min(widest if fits is None else fits, (widest + 1) // 2)
        return max(self._even(min(max(fits, self.smallest, 1), widest - 1)), self.smallest)

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
            text = f"the batch of {rows} cannot be split soundly"
            reason = said("why_whole_batch", text, rows=rows)
        else:
            reason = said("why_batch", f"the batch is {rows}", rows=rows)
        return [step_and_why(said("step_split", "splitting the batch"), reason)]

    def end(self) -> None:
        """Let go of everything; the options that carry this object may live on."""
        self.in_use, self.conds, self.copies = [], None, {}
