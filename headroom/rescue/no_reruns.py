"""What replaces reruns on a ComfyUI that is too different for them."""

from typing import Any

from ..base.refusals import Refused
from ..base.said import Said


class NoReruns:
    """Refuses each request with the reason, `why`, and ignores events."""

    def __init__(self, why: Said) -> None:
        self._why = why

    def prompt_begins(self) -> None: ...

    def error_is_handled(self, error: BaseException) -> None: ...

    def stops_for_ram(self, prompt_id: str, node_id: str, text: str) -> None: ...

    def prompt_is_over(self, prompt_id: str | None = None) -> None: ...

    def history_is_written(self) -> None: ...

    def ask(self, prompt_id: str) -> dict[str, Any]:
        raise Refused(self._why)

    def facts(self, prompt_id: str) -> dict[str, Any]:
        return {}
