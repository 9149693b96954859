"""Give a prompt that ran out of memory a rerun: decide, purge, guard, and queue it first."""

import gc
import logging
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.node_types import Registry
from ..base.said import NotKnown, Refused, joined, sentence_of
from ..host.adapter import guard_host
from ..host.types import Held
from ..measure.journal import Entry, OomAttempt
from . import words
from .failed_prompt import FailedPrompt, SeenError, executed, failure_of, row_of_entry
from .finished import Finished
from .kept import Book, Kept, Rerun, Running
from .settings import own_part, rescue_of
from .setup import RerunSetup, setup_of

log = logging.getLogger("headroom")

EVENT = "headroom.rescue"
DECISION_SECONDS = 10.0  # in the thread that runs prompts, or in the recorder's


@dataclass(eq=False)
class Rescue:
    """Called for every prompt by the recorder and for ComfyUI's log, and for requests over HTTP."""

    host: Any
    registry: Registry
    purge: Callable[[bool], None]  # of RAM too, if True; in the thread that runs prompts
    models: Callable[[], list[Held]]
    finished: Finished | None = None  # keeps on disk what a rerun need not compute again

    def __post_init__(self) -> None:
        self._running: Running | None = None
        self._unwanted: set[str | None] = set()  # these ran when the queue was last cleared
        self._leaves_garbage = False
        self._book = Book()
        self._deciding = threading.RLock()  # locked while ComfyUI's server thread validates

    # ---------------------------------------------------- events, in the thread that runs prompts

    def prompt_begins(self) -> None:
        """A prompt is about to begin; before a rerun all models are unloaded."""
        self.prompt_is_over()
        if (item := self.host.running_item()) is None:
            return
        prompt_id = str(item[1])
        self._running = Running(prompt_id, item[5])
        with self._deciding:
            kept = self._book.begins(prompt_id)
        if kept is not None:
            kept.has_run_again = True
            self.purge(kept.failure.where == "RAM")
        if self.finished is not None:
            self.finished.prompt_begins(prompt_id, item[2])

    def error_is_handled(self, error: BaseException) -> None:
        """ComfyUI handles an error: note what holds the memory before everything is unloaded.

        An interrupt leaves garbage too.
        """
        self._leaves_garbage = True
        guard = guard_host()
        is_interrupt = guard is not None and guard.is_interrupt(error)
        if self._running is not None and not is_interrupt:
            self._running.fails(error, self.host, self.models)

    def note(self, entry: Entry) -> None:
        """A node continued without a part of its work."""
        if self._running is not None and isinstance(entry, OomAttempt):
            self._running.node_continues(entry)

    def stops_for_ram(self, prompt_id: str, node_id: str, text: str) -> None:
        """A prompt is about to be interrupted before RAM runs out (in a thread of ours)."""
        running = self._running
        if running is not None and running.prompt_id == prompt_id:
            running.heard = SeenError(node_id, "RAM", "Interrupted", text, (), is_stop=True)

    def queue_is_cleared(self) -> None:
        """Somebody emptied the queue (in the server's thread): what runs gets no rerun."""
        running = self._running
        # What is in the executor may not have begun yet.
        self._unwanted = {self._taken(), running.prompt_id if running is not None else None}

    def history_is_written(self) -> None:
        """ComfyUI's history has the prompt: collect what an error left, then look back.

        A cycle keeps the failed node's frames, with models and tensors. ComfyUI collects it up to
        ten seconds later; while it unloads such a model, that fails with an IndexError.
        """
        if self._leaves_garbage:
            self._leaves_garbage = False
            gc.collect()
        self.prompt_is_over()

    def prompt_is_over(self, prompt_id: str | None = None) -> None:
        """The prompt that ran has left the executor; a second call for it changes nothing."""
        with self._deciding:
            running = self._running
            if running is None or prompt_id not in (None, running.prompt_id):
                return
            if self._taken() == running.prompt_id:
                return
            try:
                rerun = self._look_back(running)
            finally:
                self._running = None
                running.is_decided.set()  # only now: `facts` waits for it
        if rerun is not None:
            self._queue(rerun)

    def _taken(self) -> str | None:
        """Return the id of the prompt that is in the executor."""
        item = self.host.running_item()
        return None if item is None else str(item[1])

    def _look_back(self, running: Running) -> Rerun | None:
        entry = self.host.history_entry(running.prompt_id)
        if entry is None:
            return None  # somebody cleared the history
        marks = self.host.change_marks(running.prompt_id)
        shown = self.host.shown_nodes(running.prompt_id, executed(entry))
        begun = self.host.shown_nodes(running.prompt_id, self.host.running_nodes()).values()
        failure = failure_of(entry, running.heard, marks, running.left_out, shown, begun)
        return None if failure is None else self._decide(failure, running)

    # ---------------------------------------------------- requests

    def ask(self, prompt_id: str) -> dict[str, Any]:
        """Queue a prompt that ran out of memory again, guarded, before all others.

        Raises NotKnown; raises Refused if it did not run out of memory or has had its rerun.
        """
        with self._deciding:
            self.prompt_is_over(prompt_id)
            kept = self._book.get(prompt_id) or self._from_history(prompt_id)
            if (first := self._book.first(prompt_id)) is not None:
                raise Refused(words.is_rerun(prompt_id, first.failure.prompt_id))
            if kept.rescued_as is not None and not kept.is_given_up(self.host.is_known):
                raise Refused(words.was_run_again(prompt_id, kept.rescued_as))
            if kept.failure.is_final:
                raise Refused(words.guard_gave_up(kept.failure))
            rerun = self._again(kept, self._setup(kept))
        self._queue(rerun)
        return {
            "prompt_id": kept.rescued_as, "rescued_from": prompt_id, "text": kept.text,
            "not_guarded": [
                {"node_id": wire.taker, "input": wire.input, "type": wire.given}
                for wire in rerun.setup.guarded.left
            ],
        }

    def facts(self, prompt_id: str) -> dict[str, Any]:
        """Return what the record of a run shows about its first run and its rerun.

        A client that has seen in ComfyUI's history that a prompt failed finds the decision here. If
        the prompt has just left the executor, this waits for it. Do not call it in the server's own
        thread.
        """
        running = self._running
        if running is not None and running.prompt_id == prompt_id != self._taken():
            running.is_decided.wait(DECISION_SECONDS)
        if (kept := self._book.get(prompt_id)) is not None:
            kept.is_queued.wait(DECISION_SECONDS)
            with self._deciding:
                if kept.is_given_up(self.host.is_known):
                    self._offer(kept, self._setup(kept))
        return self._book.facts(prompt_id)

    # ---------------------------------------------------- the decision

    def _decide(self, failure: FailedPrompt, running: Running) -> Rerun | None:
        kept = self._book.keep(Kept(failure, words.what_failed(failure), running.sensitive))
        first, wish = self._book.first(failure.prompt_id), rescue_of(failure.extra_data, os.environ)
        if first is not None:
            kept.text = words.failed_twice(failure, first.failure)
        elif wish == "off" or failure.prompt_id in self._unwanted or self.host.interrupt_is_asked():
            return None
        elif failure.is_final:
            kept.text = words.guard_gave_up(failure)
        elif (setup := self._setup(kept)).runs.paid or wish != "automatic":
            self._offer(kept, setup)
        else:
            try:
                return self._again(kept, setup)
            except Refused as error:
                kept.text = words.cannot_run_again(failure, sentence_of(error))
        self._tell(kept)
        return None

    def _offer(self, kept: Kept, setup: RerunSetup) -> None:
        kept.rescued_as = None  # in case a rerun was queued and deleted
        kept.text = words.runs_again(kept.failure, setup.runs, is_offer=True)

    def _again(self, kept: Kept, setup: RerunSetup) -> Rerun:
        """Decide on a rerun; `_queue` then queues it. Raises Refused."""
        failure, new_id = kept.failure, str(uuid.uuid4())
        try:
            outputs = self.host.validated(new_id, setup.guarded.prompt, setup.outputs)
        except ValueError as error:
            raise Refused(words.refused_by_host(str(error))) from error
        self._book.link(kept, new_id)
        kept.is_queued.clear()
        kept.text = joined(" ", filter(None, (
            words.runs_again(failure, setup.runs), words.not_guarded(setup.guarded.left))))
        return Rerun(kept, new_id, setup._replace(outputs=outputs))

    def _queue(self, rerun: Rerun) -> None:
        """Queue the rerun after its finished outputs are on disk: a server can be killed in it.

        Writing takes time, so `_deciding` is not locked during that time.
        """
        kept, failure = rerun.kept, rerun.kept.failure
        own = {**own_part(failure.extra_data), "rescued_from": failure.prompt_id}
        try:
            if self.finished is not None:
                self.finished.keep(rerun.prompt_id, rerun.setup, failure.prompt_id)
            self.host.put_first(
                failure.number, rerun.prompt_id, rerun.setup.guarded.prompt,
                {**failure.extra_data, "headroom": own}, rerun.setup.outputs, kept.sensitive,
            )
        finally:
            kept.is_queued.set()
        self._tell(kept)

    def _setup(self, kept: Kept) -> RerunSetup:
        return setup_of(kept.failure, self.host, self.registry)

    def _from_history(self, prompt_id: str) -> Kept:
        entry = self.host.history_entry(prompt_id)
        failure = failure_of(entry, None) if entry is not None else None
        if failure is not None:
            return self._book.keep(Kept(failure, words.what_failed(failure)))
        if entry is None and not self.host.is_known(prompt_id):
            raise NotKnown(words.is_unknown(prompt_id))
        raise Refused(words.ended_otherwise(prompt_id, row_of_entry(entry or {})))

    def _tell(self, kept: Kept) -> None:
        failure, again = kept.failure, f", again as {kept.rescued_as}" if kept.rescued_as else ""
        log.warning("[Headroom] prompt %s%s: %s", failure.prompt_id, again, kept.text)
        client = failure.extra_data.get("client_id")
        told = {"prompt_id": failure.prompt_id, **self._book.facts(failure.prompt_id)}
        self.host.send_event(EVENT, told, client if isinstance(client, str) else None)
