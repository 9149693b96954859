"""Advice on the runs of this server: their records, and their prompts from ComfyUI's history."""

from collections.abc import Callable
from typing import Any

from ..base.node_types import Registry
from ..base.refusals import NotKnown
from ..record.recorder import Recorder
from .advise import advise
from .case import Case, case_of
from .wires import Prompt
from .words import text_of

NOT_KNOWN = (
    "No record of this prompt: it has not begun yet, or is older than the last runs that are kept."
)


class Advisor:
    """Asked over HTTP and by Memory Report.

    `prompt_of(id)` gives a prompt's graph while ComfyUI still knows it; records keep none, which
    would be megabytes each. `facts(id)` tells how it ran out of memory, if it did.
    """

    def __init__(
        self, recorder: Recorder, prompt_of: Callable[[str], Prompt | None], registry: Registry,
        facts: Callable[[str], dict[str, Any]] = lambda _: {},
    ) -> None:
        self._recorder = recorder
        self._prompt_of = prompt_of
        self._registry = registry
        self._facts = facts

    def advice(self, prompt_id: str) -> list[dict[str, Any]]:
        """Return the findings on a run as data, best first; NotKnown without a record of it."""
        case = self._case(prompt_id)
        found = [] if case is None else advise(case)
        return [finding.as_json(text_of(finding)) for finding in found]

    def _case(self, prompt_id: str) -> Case | None:
        failure = self._facts(prompt_id).get("failure")
        prompt = self._prompt_of(prompt_id) or {}
        seen = self._recorder.look(
            prompt_id, lambda run: (case_of(run, prompt, self._registry, failure=failure),)
        )
        if seen is None:
            raise NotKnown(NOT_KNOWN)
        return seen[0]
