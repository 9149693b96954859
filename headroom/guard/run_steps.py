"""The rungs of a sampling: split its joined batches, load fewer of its weights."""

from collections.abc import Callable

from ..base.said import said
from .choose import RecoveryStep
from .run import GuardedRun
from .shortage import Shortage

_SPARE = 0.85  # of the room: the failed call would have wanted more, had it come further


class SplitBatch(RecoveryStep):
    """Rung 4: run joined calls in the largest pieces that can fit, down to the smallest sound one.

    What a call needs falls with its rows at most in proportion, and what streaming its weights
    takes (`buffers`) not at all. So a piece that is too large for the room by this estimate cannot
    work; of those that can, the fewest equal ones are taken.
    """

    name = said("step_split", "splitting the batch")
    is_exact = False

    def __init__(
        self, run: GuardedRun, needs: Callable[[int], float] | None = None,
        piece_seconds: Callable[[], float] = lambda: 0.0, buffers: Callable[[], int] = lambda: 0,
    ) -> None:
        self._run = run
        self._needs = needs
        self._buffers = buffers
        self._piece_seconds = piece_seconds

    def spares(self, shortage: Shortage) -> int | None:
        widest, smallest = self._run.widest, self._run.smallest
        if widest <= smallest:
            return 0
        if shortage.need_bytes is None:
            return None
        return shortage.need_bytes * (widest - smallest) // widest

    def seconds(self, shortage: Shortage) -> float:
        """Every further piece launches all kernels again, and streams what is not loaded."""
        return self._piece_seconds() * (self._run.pieces(self._limit(shortage)) - 1)

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        run = self._run
        if run.widest <= run.smallest:
            return None
        run.too_many = min(run.widest, run.too_many or run.widest)
        run.limit = run.smallest if tries_left == 1 else self._limit(shortage)
        rows = run.rows or run.expected
        text = f"split the batch of {rows} into pieces of at most {run.limit}"
        return said("guard_split", text, rows=rows, limit=run.limit)

    def why_not(self, shortage: Shortage) -> str:
        rows, smallest = self._run.widest, self._run.smallest
        if rows <= 1:
            return said("why_batch", "the batch is 1", rows=1)
        if rows <= smallest:
            text = f"the batch of {rows} cannot be split soundly"
            return said("why_whole_batch", text, rows=rows)
        return said("why_batch", f"the batch is {rows}", rows=rows)

    def _limit(self, shortage: Shortage) -> int:
        """Return the rows of the largest pieces that can fit by estimate; half where none can tell.

        After pieces of our own have failed, what worked before them, else half of them at most.
        """
        run, widest, buffers = self._run, self._run.widest, self._buffers()
        fits = shortage.share_of(widest, _SPARE, buffers)
        if fits is None or (run.limit is not None and run.limit <= widest):
            fits = min(fits or widest, (widest + 1) // 2)
        elif self._needs is not None and shortage.room_bytes is not None:
            room = shortage.room_bytes - buffers
            fits = min(fits, int(room / max(self._needs(1), 1.0)))
        if run.works is not None and run.works < widest:
            fits = run.works
        limit = min(max(fits, run.smallest, 1), widest - 1)
        return max(run.even(limit), run.smallest)


class ReserveMore(RecoveryStep):
    """Rung 3 while loading: let ComfyUI load fewer weights and keep more room for computing."""

    name = said("step_reserve", "loading fewer of its own weights")
    _FACTORS = (4, 1_000_000)  # the last leaves no room for weights at all: everything streams

    def __init__(self, run: GuardedRun) -> None:
        self._run = run

    def spares(self, shortage: Shortage) -> int | None:
        return None if self._larger() and shortage.where == "device" else 0

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        larger = self._larger()
        if not larger:
            return None
        self._run.reserve = larger[-1] if tries_left == 1 else larger[0]
        return said("guard_reserved", "loaded fewer of its own weights onto the GPU")

    def why_not(self, shortage: Shortage) -> str:
        if shortage.where == "RAM":
            return said("why_into_ram", "they would go to RAM")
        if not self._larger():
            return said("why_streamed", "they are streamed already")
        return said("why_others_first", "others came first")

    def _larger(self) -> list[int]:
        return [factor for factor in self._FACTORS if factor > self._run.reserve]
