"""The identity of everything above one input of a prompt: nodes, widgets, the files they name.

ComfyUI computes the same object for two inputs with the same identity, in any process and at any
time. If that cannot be promised, the identity says why.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.file_identity import identities_of
from ..base.graph import Graph
from ..base.node_types import ClassInfo, Registry
from ..base.prompt_node import MODEL_SUFFIXES, Node, constants, is_link, strings
from ..host.adapter import host_registry


@dataclass(frozen=True)
class Ancestry:
    """The identity of everything that feeds an input.

    `digest` is the same if classes, widgets and files are the same. `problem`: None, or a sentence
    with the reason why the digest must not be relied on.
    """

    digest: str
    files: tuple[Path, ...]
    problem: str | None


def identify(prompt: Any, node_id: str, input: str, registry: Registry | None = None) -> Ancestry:
    """Return the identity of what feeds `input`; it has no node ids, so the layout does not matter.

    The first time it reads every file that a node above names (see file_identity).
    """
    graph = Graph(prompt, registry or host_registry())
    link = graph.nodes[node_id]["inputs"].get(input)
    try:
        return _identify(graph, link)
    except (LookupError, OSError, TypeError) as error:
        return Ancestry("", (), f"what feeds `{input}` cannot be followed: {error}")


def _identify(graph: Graph, link: Any) -> Ancestry:
    if not is_link(link) or link[0] not in graph.nodes:
        raise LookupError("nothing is connected there")
    above = graph.above(link[0])
    digests: dict[str, str] = {}
    problem = None
    for ancestor in above:
        node, files = graph.nodes[ancestor], graph.files([ancestor])
        info = _info(graph, node)
        problem = problem or _problem_with(graph, ancestor, info, files)
        described = {
            "class": node["class_type"],
            "code": info.code,
            "id": ancestor if info.wants_id else "",
            "changed": repr(node.get("is_changed")) if info.own_changes else "",
            "inputs": {name: _input(value, digests) for name, value in node["inputs"].items()},
            "files": identities_of(files),
        }
        digests[ancestor] = _hash(json.dumps(described, sort_keys=True))
    text = json.dumps([digests[link[0]], link[1]])
    return Ancestry(_hash(text), tuple(graph.files(above)), problem)


def _info(graph: Graph, node: Node) -> ClassInfo:
    class_type = node["class_type"]
    info = graph.registry.class_info(class_type)
    if info is None:
        raise LookupError(f"the node class {class_type} is not installed")
    return info


def _input(value: Any, digests: Mapping[str, str]) -> Any:
    """Return an input's part of the identity; LookupError for a link to a missing node."""
    if is_link(value):
        if value[0] not in digests:
            raise LookupError(f"node {value[0]} is not there")
        return {"from": digests[value[0]], "output": value[1]}
    return {"value": value}


def _problem_with(
    graph: Graph, node_id: str, info: ClassInfo, files: list[Path]
) -> str | None:
    node = graph.nodes[node_id]
    name = node["class_type"]
    owner = f"node {node_id} ({name})"
    mark = node.get("is_changed")
    is_settled = not info.own_changes or (mark is not None and "NaN" not in json.dumps(mark))
    if not (is_settled and info.repeatable) or info.is_new_code:
        return f"the result of {owner} may differ from run to run"
    names = [name for name in strings(constants(node)) if name.lower().endswith(MODEL_SUFFIXES)]
    is_source = not any(is_link(value) for value in node["inputs"].values())
    if not all(graph.files_named(name) for name in names if "\n" not in name) or (
        is_source and not info.is_core and not files
    ):
        return f"{owner} names no file, or one that is in no models folder of this ComfyUI"
    return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
