"""The prompts that wait at a door, or run: on disk whole, in mind by what places them."""

from collections.abc import Collection
from dataclasses import dataclass

from .keys import attempt_id, kind_of, models_of
from .placement import Queue, Waiting
from .store import Kept, Store
from .words import Asked

OVERDUE_SECONDS = 60.0  # then a prompt goes before those that suit a server better


@dataclass
class Begun:
    """The prompt that a server runs: `attempt` is its id there, `client_id` whose it is."""

    waiting: Waiting
    attempt: str
    client_id: str
    kept: Kept
    last_node: str = ""  # the message that said which node runs
    is_cancelled: bool = False


class Line:
    """What waits, in the queue and in the store."""

    def __init__(self, store: Store) -> None:
        self.queue = Queue(store.needs, OVERDUE_SECONDS)
        self._store = store

    def join(self, kept: Kept, resumes_on: str | None = None) -> None:
        """Have a prompt wait; its graph stays on disk until a server gets it."""
        asked = Asked(kept.id, kept.id, {}, {}, kind_of(kept.prompt), models_of(kept.prompt))
        self.queue.add(Waiting(asked, kept.past, resumes_on=resumes_on), kept.number < 0)

    def again(self, waiting: Waiting) -> None:
        """A prompt that was tried waits again."""
        self._store.waits(waiting.asked.key, waiting.past)
        self.queue.add(waiting)

    def cancel(self, prompt_ids: Collection[str] | None) -> list[str]:
        """Take prompts out that wait, or every one; return those that did."""
        keys = {one.asked.key for one in self.queue.all()} if prompt_ids is None else prompt_ids
        out = self.queue.discard(keys)
        with self._store.at_once():
            self._store.drop(out)
        return out

    def release(self, server: str) -> None:
        """What waited for this server may go elsewhere; it is told to forget it."""
        for waiting in self.queue.all():
            if waiting.resumes_on == server:
                waiting.resumes_on = None
                self._store.waits(waiting.asked.key, waiting.past)
                ended = waiting.past.ended.get(server, 0)
                self._store.abandon(server, attempt_id(waiting.asked.key, server, ended))
