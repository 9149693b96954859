"""Change marks that differ every time."""

import time

from .anything import Node


class WorldByTime(Node):
    """A number that counts as changed in every prompt."""

    INPUTS = {"value": ("INT", {})}

    @classmethod
    def IS_CHANGED(cls, **_):
        return time.time()

    RETURN_TYPES = ("INT",)

    def run(self, value):
        return (value,)
