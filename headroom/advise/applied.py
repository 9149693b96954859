"""Find out which advice a later prompt has followed: the same prompt with our nodes added."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.graph import Prompt
from .finding import Finding

OURS = "Headroom"


def applied(before: Prompt, after: Prompt, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings on `before` that `after` follows; none if it differs in other ways.

    On the canvas new nodes get other ids than in a file, so nodes are counted by class.
    """
    is_same_work = all(_is_same(node, after.get(node_id)) for node_id, node in before.items())
    if not findings or not is_same_work:
        return []
    new = _ours(after) - _ours(before)
    if not new or _ours(before) - _ours(after):
        return []
    followed = []
    for finding in findings:
        wanted = _wanted(finding)
        if wanted and not wanted - new and _is_there(after, finding):
            followed.append(finding)
            new = new - wanted
    return followed if not new else []


def _wanted(finding: Finding) -> Counter[str]:
    steps = (finding.edit or {}).get("steps", [])
    return Counter(step["class_type"] for step in steps if "class_type" in step)


def _is_there(after: Prompt, finding: Finding) -> bool:
    """Whether each step's class is there with the step's values, which may differ between steps."""
    return all(
        any(node.get("class_type") == step["class_type"]
            and (node.get("inputs") or {}).items() >= step["inputs"].items()
            for node in _places(after, step))
        for step in (finding.edit or {})["steps"] if "class_type" in step
    )


def _places(after: Prompt, step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the nodes that a step may have created: a replaced node keeps its id."""
    if step["op"] == "replace":
        return [after[step["node"]]] if step["node"] in after else []
    return list(after.values())


def _ours(prompt: Prompt) -> Counter[str]:
    classes = (str(node.get("class_type")) for node in prompt.values())
    return Counter(name for name in classes if name.startswith(OURS))


def _is_same(node: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Whether a node of the user's is there with its values; encode nodes may be ours now."""
    if other is None:
        return False
    kind, now = node.get("class_type"), str(other.get("class_type"))
    if kind != now and not now.startswith(OURS):
        return False
    values, others = node.get("inputs") or {}, other.get("inputs") or {}
    return all(isinstance(value, list) or others.get(name) == value
               for name, value in values.items() if name in others or kind == now)
