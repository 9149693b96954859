"""Which prompt goes to which server: pure decisions over what is known."""

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from .needs import Fit, Needs
from .words import Asked, Facts, Past

# The better first. A kind of which nothing is known is tried once early, so that the rest of it
# is placed by what that taught; several at once only before a server would stand idle.
FIRST_OF_ITS_KIND, MORE_OF_AN_UNKNOWN_KIND = 0, 2
ORDER: dict[Fit, int] = {"fits": 1, "may fit": 3, "guarded": 4}
LAST_RESORT, NEVER = 5, 9
RESUMES, OVERDUE = -2, -1


@dataclass
class Waiting:
    """A prompt that waits, with its past; the server `resumes_on` perhaps runs it already."""

    asked: Asked
    past: Past = field(default_factory=Past)
    turned_away: int = 0
    resumes_on: str | None = None
    since: float = field(default_factory=time.monotonic, compare=False)


@dataclass
class Server:
    """A server as the door knows it; `models` are those of its last prompt."""

    name: str
    facts: Facts = field(default_factory=Facts)
    models: frozenset[str] = frozenset()

    @property
    def size_mib(self) -> float:
        """What orders servers by size: the room that they can make at most."""
        return self.facts.total_mib or 0.0


class Sizes:
    """How the servers that are there compare; `may_come` says that a larger one may come yet.

    Made in one pass, so that a thousand servers cost the head little.
    """

    def __init__(self, servers: Iterable[Server], may_come: bool = False) -> None:
        self._may_come = may_come
        known = sorted({(one.size_mib, one.facts.room_mib or 0.0) for one in servers})
        self._sizes = [size for size, _ in known]
        # The most room on the smallest server, on the two smallest, and so on; on none at first.
        self._rooms = list(accumulate((room for _, room in known), max, initial=0.0))
        self.most_room_mib = self._rooms[-1]

    def is_largest(self, server: Server) -> bool:
        """Whether none is larger: a prompt that is too large for all is tried here."""
        return not self._may_come and server.size_mib >= max(self._sizes[-1:], default=0.0)

    def room_below(self, server: Server) -> float:
        """The most room on any smaller server."""
        return self._rooms[bisect_left(self._sizes, server.size_mib)]


class Queue:
    """The prompts that wait, by kind; those with a history of their own apart.

    One that waits longer than `patience_seconds` goes first wherever it may run.
    """

    def __init__(
        self, needs: Needs, patience_seconds: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._needs = needs
        self._patience, self._clock = patience_seconds, clock
        self._fresh: dict[str, deque[Waiting]] = {}
        self._special: list[Waiting] = []
        self._in_flight: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._special) + sum(map(len, self._fresh.values()))

    def add(self, waiting: Waiting, at_front: bool = False) -> None:
        """Put a prompt at the end of its kind; one that was tried before is looked at first."""
        past = waiting.past
        if past.not_on or past.lost or past.errors or waiting.resumes_on:
            self._special.append(waiting)
        else:
            several = self._fresh.setdefault(waiting.asked.kind, deque())
            (several.appendleft if at_front else several.append)(waiting)

    def all(self) -> list[Waiting]:
        return [*self._special, *(one for several in self._fresh.values() for one in several)]

    def discard(self, keys: Collection[str]) -> list[str]:
        """Take out these prompts, wherever they wait; return those that did."""
        every, self._special, self._fresh = self.all(), [], {}
        for one in every:
            if one.asked.key not in keys:
                self.add(one)
        return [one.asked.key for one in every if one.asked.key in keys]

    def is_over(self, kind: str) -> None:
        """A prompt of this kind no longer runs."""
        self._in_flight[kind] -= 1

    def take(self, server: Server, sizes: Sizes) -> Waiting | None:
        """Take out the prompt that this idle server is to run next; None when none is for it."""
        found = self._best(server, sizes)
        if found is not None:
            self._remove(found)
            self._in_flight[found.asked.kind] += 1
        return found

    def has_for(self, server: Server, sizes: Sizes) -> bool:
        return self._best(server, sizes) is not None

    def _best(self, server: Server, sizes: Sizes) -> Waiting | None:
        ranked = ((self._rank(one, server, sizes), one) for one in self._candidates(server))
        rank, found = min(ranked, key=lambda pair: pair[0], default=((NEVER,), None))
        return None if rank[0] == NEVER else found

    def _candidates(self, server: Server) -> Iterable[Waiting]:
        for waiting in self._special:
            if server.name not in waiting.past.not_on:
                yield waiting
        for several in self._fresh.values():
            yield several[0]

    def _rank(
        self, waiting: Waiting, server: Server, sizes: Sizes
    ) -> tuple[int, bool, bool, float]:
        """Return the sort key, the smallest goes first: fit, only here, models to load, need."""
        asked = waiting.asked
        if waiting.resumes_on is not None:
            return (RESUMES if waiting.resumes_on == server.name else NEVER, False, False, 0.0)
        need = self._needs.of(asked.kind)
        fit = need.fit(server.facts.room_mib, server.size_mib)
        if fit == "unknown":
            running = self._in_flight[asked.kind]
            rank = MORE_OF_AN_UNKNOWN_KIND if running else FIRST_OF_ITS_KIND
        elif fit == "too small":
            rank = LAST_RESORT if sizes.is_largest(server) else NEVER
        else:
            rank = ORDER[fit]
        if rank != NEVER and self._clock() - waiting.since > self._patience:
            return (OVERDUE, False, False, waiting.since)
        only_here = need.fit(sizes.room_below(server)) != "fits"
        reloads = bool(asked.models) and asked.models != server.models
        weight = need.enough_mib if need.enough_mib < float("inf") else need.short_mib
        return (rank, not only_here, reloads, -weight)

    def _remove(self, waiting: Waiting) -> None:
        if waiting in self._special:
            self._special = [one for one in self._special if one is not waiting]
        elif len(several := self._fresh[waiting.asked.kind]) > 1:
            several.popleft()
        else:
            del self._fresh[waiting.asked.kind]  # kinds without end come and go
