"""Change marks that differ every time."""

import random
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


class WorldRandomSeed:
    """A seed that is drawn anew in every run, where it is −1."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seed": ("INT", {"min": -1})}}

    @classmethod
    def IS_CHANGED(cls, seed):
        return random.random() if seed == -1 else seed

    RETURN_TYPES = ("INT",)
    FUNCTION = "execute"
    CATEGORY = "world"

    def execute(self, seed):
        return (random.SystemRandom().randrange(1 << 40) if seed == -1 else seed,)
