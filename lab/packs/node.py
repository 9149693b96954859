"""What the nodes of tests have in common; each pack reads this file for itself."""

import json


class AnyType(str):
    def __ne__(self, other):
        return False


ANY = AnyType("*")


class Node:
    """A node that takes `INPUTS`, may take the `OPTIONAL` ones, and is told the `HIDDEN` ones."""

    CATEGORY, FUNCTION = "headroom tests", "run"
    RETURN_TYPES = (ANY,)
    INPUTS, OPTIONAL, HIDDEN = {}, {}, {}

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": cls.INPUTS, "optional": cls.OPTIONAL, "hidden": cls.HIDDEN}


class Shown(Node):
    """A node that shows a JSON answer; it runs again in every queue."""

    OUTPUT_NODE = True

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")

    @staticmethod
    def shown(answer, value=None):
        return {"ui": {"text": [json.dumps(answer)]}, "result": (value,)}
