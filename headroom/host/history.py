"""What ComfyUI's history says of a prompt."""

from collections.abc import Mapping
from typing import Any


def messages_of(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the messages in the `status` of a history entry, by the name of each."""
    return dict((status or {}).get("messages") or [])
