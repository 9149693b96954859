"""Does the running prompt still come on? A step that never ends is told after a time of its own."""

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
    """`idle()` tells for how many seconds the running prompt has not come on, and in which node.

    It comes on with each node that begins or ends, and each step that moves a progress bar. Some
    nodes move none, so 0 (never) is what counts unless somebody sets seconds: the environment's win
    over those that the browser's user has set, which come with each prompt.
    """

    def __init__(
        self, idle: Callable[[], tuple[float, NodeLabel | None] | None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._idle = idle
        self._of_server = count_of(environment, VARIABLE, "seconds (0: never)")
        self._of_browser = 0.0

    def prompt_is_posted(self, browser: Mapping[str, Any]) -> None:
        """A prompt comes, from a user with these browser settings."""
        self._of_browser = chosen(browser, SETTING, MAX_SECONDS)

    def stuck(self) -> Said | None:
        """Return that the running prompt does not come on, and where; None while it does."""
        limit = self._of_browser if self._of_server is None else float(self._of_server)
        found = self._idle() if limit > 0 else None
        if found is None or found[0] < limit:
            return None
        seconds, node = int(found[0]), found[1]
        if node is None:
            return said("no progress for {seconds} s", seconds=seconds)
        return said("no progress for {seconds} s in {node}", seconds=seconds,
                    node=f"{node.title} #{node.node_id}")
