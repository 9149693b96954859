"""Does the running prompt make progress? A step that never ends is reported after some time."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..base.environment import chosen, count_of
from ..base.said import Said, said
from ..host.types import NodeLabel

VARIABLE = "HEADROOM_NO_PROGRESS_SECONDS"
SETTING = "Headroom.Server.NoProgressSeconds"
MAX_SECONDS = 7 * 24 * 3600


class ProgressWatch:
    """`idle()` says since how many seconds the running prompt has made no progress, and where.

    Progress is each begin and end of a node, and each step of a progress bar. Some nodes have none,
    so the default is 0 (never). Seconds from the environment have priority over the setting of the
    browser's user, which comes with each prompt.
    """

    def __init__(
        self, idle: Callable[[], tuple[float, NodeLabel | None] | None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._idle = idle
        self._of_server = count_of(environment, VARIABLE, "seconds (0: never)")
        self._of_browser = 0.0

    def prompt_is_posted(self, browser: Mapping[str, Any]) -> None:
        """A prompt comes from a user with these browser settings."""
        self._of_browser = chosen(browser, SETTING, MAX_SECONDS)

    def stuck(self) -> Said | None:
        """Return that the running prompt makes no progress, and where; None while it does."""
        limit = self._of_browser if self._of_server is None else float(self._of_server)
        found = self._idle() if limit > 0 else None
        if found is None or found[0] < limit:
            return None
        seconds, node = int(found[0]), found[1]
        if node is None:
            return said("no progress for {seconds} s", seconds=seconds)
        return said("no progress for {seconds} s in {node}", seconds=seconds,
                    node=f"{node.title} #{node.node_id}")
