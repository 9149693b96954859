"""ComfyUI's node cache, flushed while a prompt runs."""

import gc

import execution

from .anything import ANYTHING, Node


class WorldFlushCache(Node):
    """Passes its value and drops what finished nodes gave, as cleaner nodes do."""

    INPUTS = {"value": (ANYTHING,)}

    def run(self, value):
        for executor in [one for one in gc.get_objects()
                         if isinstance(one, execution.PromptExecutor)]:
            executor.caches.outputs.cache.clear()
        return (value,)
