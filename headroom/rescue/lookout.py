"""The object that handles prompts that run out of memory, and the kept queue; or its substitute."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..base.graph import Prompt
from ..base.refusals import Refused
from ..base.said import Said
from .kept_queue import NOTHING_LEFT


class Reruns(Protocol):
    """Called for prompts by the recorder, and for requests over HTTP."""

    def prompt_begins(self) -> None: ...

    def prompt_is_over(self, prompt_id: str | None = None) -> None: ...

    def stops_for_ram(self, prompt_id: str, node_id: str, text: str) -> None: ...

    def ask(self, prompt_id: str) -> dict[str, Any]: ...

    def facts(self, prompt_id: str) -> dict[str, Any]: ...


class Lookout(NamedTuple):
    """Reruns, and what to call when ComfyUI reports errors and the ends of prompts.

    `prompt_of(id)` returns a prompt that ComfyUI still knows, in API format.
    """

    reruns: Reruns
    error_is_handled: Callable[[BaseException], None]
    prompt_is_over: Callable[[], None]
    prompt_of: Callable[[str], Prompt | None]


class _NoReruns:
    """Refuses each request with the reason, and ignores events."""

    def __init__(self, why: Said) -> None:
        self._why = why

    def prompt_begins(self) -> None: ...

    def prompt_is_over(self, prompt_id: str | None = None) -> None: ...

    def stops_for_ram(self, prompt_id: str, node_id: str, text: str) -> None: ...

    def ask(self, prompt_id: str) -> dict[str, Any]:
        raise Refused(self._why)

    def facts(self, prompt_id: str) -> dict[str, Any]:
        return {}


def no_lookout(why: Said) -> Lookout:
    """Return the lookout of a ComfyUI in which no prompt can run again; `why` in a sentence."""
    return Lookout(_NoReruns(why), lambda _: None, lambda: None, lambda _: None)


class NothingKept:
    """Replaces a kept queue where none is possible; `why` in a sentence."""

    def __init__(self, why: Said) -> None:
        self._why = why

    def start(self) -> None: ...

    def changed(self) -> None: ...

    def outputs_of(self, prompt_id: str) -> None: ...

    def left(self) -> dict[str, Any]:
        return NOTHING_LEFT

    def queue_again(self) -> dict[str, Any]:
        raise Refused(self._why)

    discard = queue_again
