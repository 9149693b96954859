"""What is remembered of the prompt that runs, and of prompts that ran out of memory."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.said import Said, said_json, sentence_of
from ..guard.errors import out_of_memory_behind
from ..host.adapter import guard_host
from ..host.types import Held
from ..measure.journal import Action, OomAttempt, executing_node, note
from ..record.newest import Newest
from .failed_prompt import FailedPrompt, SeenError
from .setup import RerunSetup


@dataclass
class Running:
    """The prompt that runs now, and what is known about it."""

    prompt_id: str
    sensitive: Mapping[str, Any]  # keys for paid services, which ComfyUI's history does not store
    heard: SeenError | None = None
    left_out: set[str] = field(default_factory=set)  # nodes without a part of their work
    refusal: str = ""  # of one of our nodes; ComfyUI logs each error twice
    thread: int = field(default_factory=threading.get_ident)  # that runs prompts
    is_decided: threading.Event = field(default_factory=threading.Event)

    def fails(
        self, error: BaseException, host: Any, models: Callable[[], list[Held]]
    ) -> None:
        """ComfyUI handles an error: note what holds the memory before everything is unloaded.

        A refusal of ours is also noted, with its phrase: ComfyUI shows it in English only.
        """
        phrase = sentence_of(error)
        if isinstance(error, ValueError) and isinstance(phrase, Said) and phrase != self.refusal:
            self.refusal = phrase
            note(Action(self.prompt_id, host.node_of(error), "refused", 0.0, phrase))
        cause = out_of_memory_behind(error)
        if cause is None:
            return
        if self.heard is None or self.heard.text != str(cause):
            self.heard = SeenError.of(cause, executing_node()[1], models())
        if (node_id := host.node_of(error)) is not None:
            shown = host.shown_nodes(self.prompt_id, [node_id]).get(node_id)
            self.heard = self.heard._replace(shown=shown)
        if error is not cause:
            self.heard = self.heard._replace(told_as=(type(error).__name__, str(error)))
        # Other packs log errors of their own threads while a node computes: its casts are in use.
        if (guard := guard_host()) is not None and self.thread == threading.get_ident():
            guard.streaming.forget_half_casts()  # else a rerun would use them

    def node_continues(self, entry: OomAttempt) -> None:
        """A node continued; without a part of its work, unless somebody repeated that part."""
        if entry.attempt == 0 and entry.prompt_id == self.prompt_id and entry.node_id is not None:
            self.left_out.add(entry.node_id)


@dataclass
class Kept:
    """A prompt that ran out of memory, for as long as somebody may ask for it."""

    failure: FailedPrompt
    text: str
    sensitive: Mapping[str, Any] = field(default_factory=dict)
    rescued_as: str | None = None
    has_run_again: bool = False
    # Cleared from the decision for a rerun until ComfyUI has it in its queue.
    is_queued: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.is_queued.set()

    def is_given_up(self, is_known: Callable[[str], bool]) -> bool:
        """Return whether somebody took the rerun out of ComfyUI's queue before it began."""
        return (self.rescued_as is not None and self.is_queued.is_set()
                and not self.has_run_again and not is_known(self.rescued_as))


class Rerun(NamedTuple):
    """A rerun that is decided but not yet queued; ComfyUI has validated the outputs."""

    kept: Kept
    prompt_id: str
    setup: RerunSetup


class Book:
    """The last prompts that ran out of memory, and which prompt repeats which.

    Only one thread at a time changes it: the one that decides.
    """

    def __init__(self) -> None:
        self._kept: Newest[str, Kept] = Newest()
        self._first_of: Newest[str, Kept] = Newest()

    def keep(self, kept: Kept) -> Kept:
        self._kept[kept.failure.prompt_id] = kept
        return kept

    def begins(self, prompt_id: str) -> Kept | None:
        """Return the first run that a prompt repeats; an earlier prompt of its id is forgotten."""
        self._kept.pop(prompt_id, None)
        return self.first(prompt_id)

    def get(self, prompt_id: str) -> Kept | None:
        return self._kept.get(prompt_id)

    def link(self, first: Kept, second_id: str) -> None:
        """The prompt of this id is the rerun of `first`."""
        self._first_of[second_id] = first
        first.rescued_as = second_id

    def first(self, prompt_id: str) -> Kept | None:
        """Return the first run that a prompt repeats; None if it is no rerun."""
        return self._first_of.get(prompt_id)

    def facts(self, prompt_id: str) -> dict[str, Any]:
        """Return what the record of a run shows about its first run and its rerun."""
        kept, first = self._kept.get(prompt_id), self._first_of.get(prompt_id)
        rescued_as = kept.rescued_as if kept is not None else None
        failure = None
        if kept is not None:
            may = first is None and rescued_as is None and not kept.failure.is_final
            failure = {**kept.failure.as_json(), "can_rescue": may, "text": kept.text,
                       "said": said_json(kept.text)}
        return {"rescued_as": rescued_as, "failure": failure,
                "rescued_from": None if first is None else first.failure.prompt_id}
