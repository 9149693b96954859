"""Apply an edit of the advisor to an API prompt: insert, replace a node, set a value."""

from collections.abc import Mapping
from typing import Any

Prompt = Mapping[str, Mapping[str, Any]]
Json = dict[str, Any]
REF = "ref:"


def apply_edit(prompt: Prompt, edit: Mapping[str, Any]) -> Json:
    """Return `prompt` with the steps of `edit` done in order; the input does not change.

    A new node gets the number after the largest in the prompt, so the same edit of the same prompt
    gives the same ids. An insert goes behind what an earlier edit has put on the same wire. Raises
    ValueError, in one sentence, for an edit that does not fit this prompt.
    """
    work = _Work(prompt)
    for step in edit["steps"]:
        work.do(step)
    return work.prompt


class _Work:
    """One edit of one prompt; unchanged nodes stay the same objects."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt: Json = dict(prompt)
        self._refs: dict[str, str] = {}

    def do(self, step: Mapping[str, Any]) -> None:
        steps = {"insert": self._insert, "replace": self._replace, "set": self._set}
        if step.get("op") not in steps:
            raise ValueError(f"Expected a step to be one of {', '.join(steps)}, but got "
                             f"{step.get('op')!r}.")
        steps[step["op"]](step)

    def _insert(self, step: Mapping[str, Any]) -> None:
        """Put a new node between an output and the inputs that it feeds."""
        takers = [(self._id(node), name) for node, name in step["to"]]
        source = self._fed(takers[0]) if takers else None
        source = source or self._link(step["from"])
        links = {name: self._link(link) for name, link in (step.get("links") or {}).items()}
        new = str(1 + max((_number(known) for known in self.prompt), default=0))
        self._refs[step.get("ref") or new] = new
        self.prompt[new] = {
            "class_type": step["class_type"],
            "inputs": {**(step.get("inputs") or {}), **links, step["through"]: source},
        }
        for node, name in takers:
            if self._fed((node, name)) == source:
                self._change(node, {name: [new, step["out"]]})

    def _replace(self, step: Mapping[str, Any]) -> None:
        """Replace a node by one of another class: its id, title and links stay."""
        place = self._id(step["node"])
        old = self.prompt[place]
        had = _inputs(old)
        kept = {new: had[name] for name, new in step["keep"].items() if name in had}
        inputs = {**(step.get("inputs") or {}), **kept}
        self.prompt[place] = {**old, "class_type": step["class_type"], "inputs": inputs}
        self._reconnect(place, {int(was): now for was, now in step["outputs"].items()})

    def _reconnect(self, place: str, outputs: Mapping[int, int]) -> None:
        for taker in list(self.prompt):
            for name, value in _inputs(self.prompt[taker]).items():
                if not _is_link(value) or value[0] != place:
                    continue
                if value[1] not in outputs:
                    raise ValueError(f"Output {value[1]} of node {place} feeds `{name}` of node "
                                     f"{taker}, and the new node has nothing for it.")
                self._change(taker, {name: [place, outputs[value[1]]]})

    def _set(self, step: Mapping[str, Any]) -> None:
        self._change(self._id(step["node"]), {step["input"]: step["value"]})

    def _change(self, node_id: str, inputs: Json) -> None:
        node = self.prompt[node_id]
        self.prompt[node_id] = {**node, "inputs": {**_inputs(node), **inputs}}

    def _fed(self, taker: tuple[str, str]) -> list[Any] | None:
        """Return the link that feeds an input now; None if none does."""
        value: Any = _inputs(self.prompt[taker[0]]).get(taker[1])
        return list(value) if _is_link(value) else None

    def _link(self, link: Any) -> list[Any]:
        return [self._id(link[0]), link[1]]

    def _id(self, named: str) -> str:
        """Return the id of the node that a step means: by its id, or by an earlier step's `ref`."""
        found = self._refs.get(named[len(REF):]) if named.startswith(REF) else named
        if found is None or found not in self.prompt:
            raise ValueError(f"Expected the id of a node of this prompt, but got {named!r}; the "
                             "workflow has changed since it ran.")
        return found


def _inputs(node: Any) -> Mapping[str, Any]:
    """Return a node's inputs; ComfyUI accepts any data in nodes that no output needs."""
    found = node.get("inputs") if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}


def _is_link(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[0], str)


def _number(node_id: str) -> int:
    """Return the largest number in an id: "12", and in a subgraph "30:12"."""
    parts = [part for part in node_id.replace(".", ":").split(":") if part.isdecimal()]
    return max((int(part) for part in parts), default=0)
