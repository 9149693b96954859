"""What nodes that show a test an answer have in common; each pack reads this file for itself."""

import json


class AnyType(str):
    def __ne__(self, other):
        return False


ANY = AnyType("*")


class Shown:
    """A node that shows a JSON answer; it runs again in every queue."""

    CATEGORY = "headroom tests"
    OUTPUT_NODE = True
    RETURN_TYPES = (ANY,)
    FUNCTION = "run"

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")

    @staticmethod
    def shown(answer, value=None):
        return {"ui": {"text": [json.dumps(answer)]}, "result": (value,)}
