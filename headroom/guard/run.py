"""What OOM Guard remembers during one sampling run, and nothing longer."""

from typing import Any

from .failure import Failure

KEY = "headroom_oom_guard"


class GuardedRun:
    """The state of one sampling: the split found necessary stays for its remaining steps.

    It travels in the run's own transformer options, so a run in another thread or inside this one
    has its own.
    """

    def __init__(self) -> None:
        self.limit: int | None = None  # rows a call of the model may have; None: as they come
        self.reserve = 1  # how many times the estimate is kept free when loading
        self.rows = 0  # the largest batch of the present step
        self.smallest = 1  # the fewest rows that this batch can soundly be cut into
        self.expected = 0  # the most rows a call of the present step can have
        self.in_use: list[Any] = []  # patchers this sampling needs
        self.conds: dict[str, list[dict[str, Any]]] | None = None
        self.copies: dict[int, tuple[Any, Any]] = {}  # ControlNet -> our splitting copy of it

    def start_step(self, expected: int = 0) -> None:
        self.rows, self.smallest, self.expected = 0, 1, expected

    def saw(self, rows: int, smallest: int) -> None:
        """Note one call of the model; the largest of a step is what splitting starts from."""
        if rows >= self.rows:
            self.rows, self.smallest = rows, smallest

    def end(self) -> None:
        """Let go of everything; the options that carry this object may live on."""
        self.in_use, self.conds, self.copies = [], None, {}

    @property
    def widest(self) -> int:
        """Rows of the widest call as it is run now; a guess before the first call of a step."""
        rows = self.rows or self.expected
        return rows if self.limit is None else min(rows, max(self.limit, self.smallest))


class SplitBatch:
    """Rung 4: run joined calls in pieces, halving down to the smallest sound one."""

    def __init__(self, run: GuardedRun) -> None:
        self._run = run

    def take(self, failure: Failure, tries_left: int) -> str | None:
        run = self._run
        widest = run.widest
        if widest <= run.smallest:
            return None
        half = (widest + 1) // 2
        run.limit = run.smallest if tries_left == 1 else max(run.smallest, half)
        rows = run.rows or run.expected
        return f"split the batch of {rows} into pieces of at most {run.limit}"


class ReserveMore:
    """Rung 3 while loading: let ComfyUI load fewer weights and keep more room for computing."""

    _FACTORS = (4, 1_000_000)  # the last leaves no room for weights at all: everything streams

    def __init__(self, run: GuardedRun) -> None:
        self._run = run

    def take(self, failure: Failure, tries_left: int) -> str | None:
        larger = [factor for factor in self._FACTORS if factor > self._run.reserve]
        if not larger or failure.where == "RAM":
            return None
        self._run.reserve = larger[-1] if tries_left == 1 else larger[0]
        return "loaded fewer of its own weights onto the GPU"
