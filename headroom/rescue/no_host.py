"""What replaces headroom/host/queue.py on a ComfyUI that is too different for reruns."""

from typing import Any

from ..base.said import Refused, Said


class NoHost:
    """No prompt runs as far as Rescue knows, and each request is refused with the reason, `why`."""

    def __init__(self, why: Said) -> None:
        self._why = why

    def running_item(self) -> None:
        return None

    def history_entry(self, prompt_id: str) -> Any:
        raise Refused(self._why)
