"""What stands above one input in a prompt's graph: nodes, their widgets, and the files they name.

Two inputs with the same identity get the same object from ComfyUI, in this process or in another
one, today or next week. Where that cannot be promised, the identity says why.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.choices import shown
from ..base.file_identity import identities_of
from ..base.named_files import MODEL_SUFFIXES, files_named, unique
from ..base.prompt_graph import (
    ClassInfo,
    GetNode,
    Lookup,
    Node,
    ancestors,
    constants,
    getter,
    is_link,
    strings,
    title,
)
from ..base.said import Said, said
from ..host.adapter import host_lookup


@dataclass(frozen=True)
class Ancestry:
    """The identity of what feeds an input.

    `digest` is the same whenever classes, widgets and files are. `problem` is None, or the reason
    in one sentence why the digest must not be relied on.
    """

    digest: str
    files: tuple[Path, ...]
    problem: Said | None


def identify(prompt: Any, node_id: str, input: str, lookup: Lookup | None = None) -> Ancestry:
    """Return the identity of what feeds `input`; it holds no node ids, so layout is free.

    Costs a read of every file that an ancestor names, the first time (see file_identity).
    """
    get_node = getter(prompt)
    value = get_node(node_id)["inputs"].get(input)
    if not is_link(value):
        return Ancestry("", (), said(
            "cache_unconnected", f"nothing is connected to the input `{input}`", input=input))
    survey = _Survey(get_node, lookup or host_lookup())
    try:
        for ancestor in ancestors(get_node, value[0]):
            survey.add(ancestor)
    except LookupError as error:
        return Ancestry("", (), said(
            "cache_loose_end", f"the graph above `{input}` has a loose end: {error}",
            input=input, error=str(error)))
    except OSError as error:
        return Ancestry("", (), said(
            "cache_unreadable", f"a file above `{input}` cannot be read: {error}",
            input=input, error=str(error)))
    text = json.dumps([survey.digests[value[0]], value[1]])
    return Ancestry(_hash(text), tuple(unique(survey.files)), survey.problem)


@dataclass
class _Survey:
    """Digests of nodes, each from its class, its widgets, its files and the digests above it."""

    get_node: GetNode
    lookup: Lookup
    digests: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    problem: Said | None = None

    def add(self, node_id: str) -> None:
        node = self.get_node(node_id)
        class_type = node["class_type"]
        info = self.lookup.node_info(class_type)
        named = self._named_files(node_id, node)
        self.files.extend(named)
        self.problem = self.problem or self._problem_with(node_id, node, info, named)
        described = {
            "class": class_type,
            "code": info.code if info else "",
            "id": node_id if info and info.wants_id else "",
            "changed": repr(node.get("is_changed")) if info and info.own_changes else "",
            "inputs": {name: self._input(value) for name, value in node["inputs"].items()},
            "files": identities_of(named),
        }
        self.digests[node_id] = _hash(json.dumps(described, sort_keys=True, default=repr))

    def _input(self, value: Any) -> Any:
        if is_link(value):
            return {"from": self.digests[value[0]], "output": value[1]}
        return {"value": value}

    def _named_files(self, node_id: str, node: Node) -> list[Path]:
        found: list[Path] = []
        for name in strings(constants(node)):
            paths = files_named(self.lookup, name)
            found.extend(paths)
            if not paths and name.lower().endswith(MODEL_SUFFIXES) and "\n" not in name:
                owner = title(node_id, node)
                self.problem = self.problem or said("cache_no_file", (
                    f"{owner} names {shown(name)}, which is in no models folder of this ComfyUI"
                ), node=owner, name=shown(name))
        return unique(found)

    def _problem_with(
        self, node_id: str, node: Node, info: ClassInfo | None, named: list[Path]
    ) -> Said | None:
        owner = title(node_id, node)
        if info is None:
            text = f"{owner} is of a class that is not installed"
            return said("cache_no_class", text, node=owner)
        for name, value in node["inputs"].items():
            if not _is_json(value):
                kind = type(value).__name__
                text = f"{owner} got a {kind} on `{name}`, which has no lasting name"
                return said("cache_no_name", text, node=owner, kind=kind, input=name)
        if info.is_new_code:
            text = f"the code of {owner} changed on disk since ComfyUI was started"
            return said("cache_new_code", text, node=owner)
        if not info.repeatable:
            text = f"{owner} says that its outputs differ from run to run"
            return said("cache_differs", text, node=owner)
        if info.own_changes and node.get("is_changed") is None:
            text = f"{owner} decides itself when it has changed, and has not been asked"
            return said("cache_not_asked", text, node=owner)
        if info.own_changes and not _is_settled(node["is_changed"]):
            text = f"{owner} counts as changed in every run"
            return said("cache_always_new", text, node=owner)
        is_source = not any(is_link(value) for value in node["inputs"].values())
        if is_source and not info.is_core and not named:
            text = f"{owner} is a custom node that names no file found in the models folders"
            return said("cache_no_source", text, node=owner)
        return None


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_settled(value: Any) -> bool:
    """Return whether a node's own change mark is equal to itself, which NaN is not."""
    return _is_json(value) and "NaN" not in json.dumps(value)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
