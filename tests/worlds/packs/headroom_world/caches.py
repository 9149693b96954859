"""ComfyUI's node cache, flushed while a prompt runs."""

import gc

import execution

from .anything import ANYTHING


class WorldFlushCache:
    """Passes its value and drops what finished nodes gave, as cleaner nodes do."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANYTHING,)}}

    RETURN_TYPES = (ANYTHING,)
    FUNCTION = "execute"
    CATEGORY = "world"

    def execute(self, value):
        for executor in [one for one in gc.get_objects()
                         if isinstance(one, execution.PromptExecutor)]:
            executor.caches.outputs.cache.clear()
        return (value,)
