"""What the user sees of a farm: one bar, and a line for what is out of the ordinary."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm


@dataclass
class Counts:
    finished: int = 0
    finished_before: int = 0
    failed: int = 0
    rescued: int = 0
    moved: int = 0
    lost: int = 0


class Progress:
    """A bar over all prompts; `total` is None where a generator does not tell how many."""

    def __init__(self, total: int | None) -> None:
        self._bar = tqdm(total=total, unit="prompt", file=sys.stderr, dynamic_ncols=True,
                         disable=None)  # a log file gets the lines only

    def changes(self, counts: Counts, states: Sequence[str]) -> None:
        """Show how many prompts are over, and what the servers do."""
        over = counts.finished + counts.finished_before + counts.failed
        shown = f"{states.count('busy')} of {len(states)} servers busy"
        away = sum(state in ("away", "starting", "gone") for state in states)
        shown += f", {away} away" if away else ""
        shown += f", {counts.failed} failed" if counts.failed else ""
        self._bar.set_postfix_str(shown, refresh=False)
        self._bar.update(over - self._bar.n)

    def says(self, text: str) -> None:
        self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        self._bar.close()
