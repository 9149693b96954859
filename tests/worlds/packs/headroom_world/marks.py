"""Change marks that differ every time."""

import time


class WorldByTime:
    """A number that counts as changed in every prompt."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {})}}

    @classmethod
    def IS_CHANGED(cls, **_):
        return time.time()

    RETURN_TYPES = ("INT",)
    FUNCTION = "execute"
    CATEGORY = "world"

    def execute(self, value):
        return (value,)
