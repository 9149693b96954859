"""What each kind of prompt needed before: between which bounds the room lies that it takes."""

from dataclasses import dataclass
from typing import Literal

MUCH_MORE = 1.5
Fit = Literal["fits", "unknown", "may fit", "guarded", "too small"]


@dataclass(frozen=True)
class Need:
    """In MiB of room: `enough_mib` sufficed, `short_mib` did not, `rescued_mib` did when guarded.

    `short_size_mib` is the largest GPU on which it did not.

    What sufficed is at first an upper bound: a large GPU lets more stay loaded than must. It comes
    down with every run that took less.
    """

    enough_mib: float = float("inf")
    short_mib: float = 0.0
    rescued_mib: float = float("inf")
    short_size_mib: float = 0.0

    @property
    def is_known(self) -> bool:
        return self != Need()

    def fit(self, room_mib: float | None, size_mib: float = 0.0) -> Fit:
        """Say what is known of this much room on a GPU of that size; None: it tells no room."""
        if not self.is_known or room_mib is None:
            return "unknown"
        # The room of one GPU goes up and down between prompts; a little more is no new chance.
        margin = MUCH_MORE if 0 < size_mib <= self.short_size_mib else 1.0
        if room_mib <= margin * self.short_mib:
            return "guarded" if room_mib >= self.rescued_mib else "too small"
        return "fits" if room_mib >= self.enough_mib else "may fit"


class Needs:
    """The needs of every kind; learned from how attempts ended.

    A server's guess counts until something is learned: what it says is short.
    """

    def __init__(self, known: dict[str, Need] | None = None) -> None:
        self._of = dict(known or {})
        self._guessed: dict[str, Need] = {}

    def of(self, kind: str) -> Need:
        learned = self.learned(kind)
        return learned if learned.is_known else self._guessed.get(kind, learned)

    def learned(self, kind: str) -> Need:
        """Return what attempts have taught, without guesses."""
        return self._of.get(kind, Need())

    def learn(
        self, kind: str, ending: str, needed_mib: float | None, room_mib: float | None,
        rescued: bool = False, size_mib: float | None = None,
    ) -> None:
        """An attempt with `room_mib` ended; `needed_mib` is what it took at its peak.

        Where there was no room, it is a guess.
        """
        if ending == "no room" and needed_mib is not None:
            self._guessed[kind] = Need(short_mib=needed_mib - 1)
            return
        old = self.learned(kind)
        enough, short, by_rescue = old.enough_mib, old.short_mib, old.rescued_mib
        short_size = old.short_size_mib
        if (ending == "out of memory" or rescued) and room_mib is not None:
            short = max(short, room_mib)
            short_size = max(short_size, size_mib or 0.0)
        if ending == "done" and rescued and room_mib is not None:
            by_rescue = min(by_rescue, room_mib)
        if ending == "done" and not rescued:
            known = [mib for mib in (needed_mib, room_mib) if mib is not None]
            enough = min([enough, *known[:1]])  # the room may have changed since it was told
        self._of[kind] = Need(enough, short, by_rescue, short_size)
