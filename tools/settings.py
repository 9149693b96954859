"""Change single values of an API prompt: `node.input=value`."""

import copy
import json
from collections.abc import Mapping
from typing import Any

from .errors import DevError

Json = dict[str, Any]


def parse_setting(text: str) -> tuple[str, Any]:
    """("3.steps", 20) from "3.steps=20": JSON where the value is JSON, else the text itself."""
    key, separator, value = text.partition("=")
    if not separator or "." not in key:
        raise DevError(f"--set takes NODE.INPUT=VALUE, for example 3.steps=20, not {text!r}.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def with_settings(prompt: Json, settings: Mapping[str, Any]) -> Json:
    """A copy of the prompt with each "node.input" changed; a node is an id, a title or a class.

    DevError names the nodes or the inputs that there are when one is not there.
    """
    changed = copy.deepcopy(prompt)
    for key, value in settings.items():
        node, _, name = key.rpartition(".")
        for found in _find(changed, node):
            inputs = changed[found]["inputs"]
            if name not in inputs:
                raise DevError(
                    f"Node {node!r} has no input {name!r}; it has {', '.join(inputs) or 'none'}."
                )
            inputs[name] = value
    return changed


def _find(prompt: Json, wanted: str) -> list[str]:
    """The ids meant by an id, a title, or a class name; several nodes may share the last two."""
    if wanted in prompt:
        return [wanted]
    found = [
        key for key, node in prompt.items()
        if wanted in (node.get("_meta", {}).get("title"), node["class_type"])
    ]
    if not found:
        known = "; ".join(f"{k} {n.get('_meta', {}).get('title', n['class_type'])}"
                          for k, n in prompt.items())
        raise DevError(f"No node has the id, title or class {wanted!r}; there are: {known}.")
    return found
