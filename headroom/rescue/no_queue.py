"""What replaces headroom/host/queue.py on a ComfyUI that is too different for reruns."""

from typing import Any

from ..base.said import Refused, Said


class NoQueue:
    """No prompt runs or is known, and each request for a rerun is refused for the reason `why`."""

    def __init__(self, why: Said) -> None:
        self._why = why

    def running_item(self) -> None:
        return None

    def prompt_of(self, prompt_id: str) -> None:
        return None

    workflow_id_of = prompt_of

    def interrupt(self, prompt_id: str, before: Any) -> bool:
        return False

    def history_entry(self, prompt_id: str) -> Any:
        raise Refused(self._why)
