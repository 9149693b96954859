"""What stands above one input in a prompt's graph: nodes, their widgets, and the files they name.

Two inputs with the same identity get the same object from ComfyUI, in this process or in another
one, today or next week. Where that cannot be promised, the identity says why.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..base.file_identity import identities_of
from ..base.prompt_graph import GetNode, Node, ancestors, constants, getter, is_link, strings, title

MODEL_SUFFIXES = (
    ".safetensors", ".sft", ".ckpt", ".pt", ".pt2", ".pth", ".bin", ".gguf", ".pkl", ".onnx",
    ".yaml",
)
MAX_NAME_LENGTH = 1024


@dataclass(frozen=True)
class NodeInfo:
    """What the host knows of a node class.

    `code` identifies the code that runs ("" for the host's own nodes, which `Lookup.code` covers).
    `own_changes`: the class itself decides when it counts as changed. `wants_id`: it may behave
    differently under another node id. `repeatable`: the same inputs give the same outputs.
    """

    code: str = ""
    is_core: bool = True
    own_changes: bool = False
    wants_id: bool = False
    repeatable: bool = True


class Lookup(Protocol):
    """How classes and files are looked up; the host's own, or a double in tests."""

    def node_info(self, class_type: str) -> NodeInfo | None:
        """Return what is known of a class, None for an unknown one."""

    def files_named(self, name: str) -> list[Path]:
        """Return the existing files that a widget value names, in any models folder."""


@dataclass(frozen=True)
class Ancestry:
    """The identity of what feeds an input.

    `digest` is the same whenever classes, widgets and files are. `problem` is None, or the reason
    in one sentence why the digest must not be relied on.
    """

    digest: str
    files: tuple[Path, ...]
    problem: str | None


def files(prompt: Any, node_id: str, input: str, lookup: Lookup | None = None) -> list[Path]:
    """Return the files that the nodes above an input name, the nearest nodes' first.

    `prompt` is an API prompt or a DynamicPrompt. A widget that is no link names its own files.
    """
    look = lookup or host_lookup()
    value = getter(prompt)(node_id)["inputs"].get(input)
    if not is_link(value):
        return files_of_values(look, value)
    get_node = getter(prompt)
    nearest_first = reversed(ancestors(get_node, value[0]))
    return files_of_values(look, [constants(get_node(node)) for node in nearest_first])


def files_of_values(lookup: Lookup, values: Any, suffixes: tuple[str, ...] = ()) -> list[Path]:
    """Return the files that the strings in widget `values` name; with `suffixes` only such."""
    names = [name for name in strings(values) if name.lower().endswith(suffixes or ("",))]
    return _unique(path for name in names for path in _files_named(lookup, name))


def identify(prompt: Any, node_id: str, input: str, lookup: Lookup | None = None) -> Ancestry:
    """Return the identity of what feeds `input`; it holds no node ids, so layout is free.

    Costs a look at every file that an ancestor names (see file_identity), and no weights.
    """
    get_node = getter(prompt)
    value = get_node(node_id)["inputs"].get(input)
    if not is_link(value):
        return Ancestry("", (), f"nothing is connected to the input `{input}`")
    survey = _Survey(get_node, lookup or host_lookup())
    try:
        for ancestor in ancestors(get_node, value[0]):
            survey.add(ancestor)
    except LookupError as error:
        return Ancestry("", (), f"the graph above `{input}` has a loose end: {error}")
    except OSError as error:
        return Ancestry("", (), f"a file above `{input}` cannot be read: {error}")
    text = json.dumps([survey.digests[value[0]], value[1]])
    return Ancestry(_hash(text), tuple(_unique(survey.files)), survey.problem)


def host_lookup() -> Lookup:
    """Return the lookup of the ComfyUI that runs in this process."""
    from ..host import graph as host_graph

    lookup: Lookup = host_graph.HostLookup()
    return lookup


@dataclass
class _Survey:
    """Digests of nodes, each from its class, its widgets, its files and the digests above it."""

    get_node: GetNode
    lookup: Lookup
    digests: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    problem: str | None = None

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
            paths = _files_named(self.lookup, name)
            found.extend(paths)
            if not paths and name.lower().endswith(MODEL_SUFFIXES) and "\n" not in name:
                self.problem = self.problem or (
                    f"{title(node_id, node)} names {name!r}, which is in no models folder of this "
                    "ComfyUI"
                )
        return _unique(found)

    def _problem_with(
        self, node_id: str, node: Node, info: NodeInfo | None, named: list[Path]
    ) -> str | None:
        name_of_node = title(node_id, node)
        if info is None:
            return f"{name_of_node} is of a class that is not installed"
        for name, value in node["inputs"].items():
            if not _is_json(value):
                kind = type(value).__name__
                return f"{name_of_node} got a {kind} on `{name}`, which has no lasting name"
        if not info.repeatable:
            return f"{name_of_node} says that its outputs differ from run to run"
        if info.own_changes and node.get("is_changed") is None:
            return f"{name_of_node} decides itself when it has changed, and has not been asked"
        if info.own_changes and not _is_settled(node["is_changed"]):
            return f"{name_of_node} counts as changed in every run"
        is_source = not any(is_link(value) for value in node["inputs"].values())
        if is_source and not info.is_core and not named:
            return f"{name_of_node} is a custom node that names no file found in the models folders"
        return None


def _files_named(lookup: Lookup, name: str) -> list[Path]:
    if not name.strip(" ./\\") or len(name) > MAX_NAME_LENGTH or "\n" in name or "\0" in name:
        return []
    return lookup.files_named(name)


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


def _unique(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))
