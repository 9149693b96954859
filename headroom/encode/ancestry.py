"""The identity of what stands above one input of a prompt: nodes, widgets, the files they name.

Two inputs with the same identity get the same object from ComfyUI, in this process or in another
one, today or next week. Where that cannot be promised, the identity says why.
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
    """The identity of what feeds an input.

    `digest` is the same whenever classes, widgets and files are. `problem` is None, or the reason
    in one sentence why the digest must not be relied on.
    """

    digest: str
    files: tuple[Path, ...]
    problem: str | None


def identify(prompt: Any, node_id: str, input: str, registry: Registry | None = None) -> Ancestry:
    """Return the identity of what feeds `input`; it holds no node ids, so layout is free.

    Costs a read of every file that an ancestor names, the first time (see file_identity).
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
    info = graph.registry.class_info(class_type) if graph.registry is not None else None
    if info is None:
        raise LookupError(f"the node class {class_type} is not installed")
    return info


def _input(value: Any, digests: Mapping[str, str]) -> Any:
    """Return what an input is known by; LookupError for a link to a node that is not there."""
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
        return f"what {owner} gives may differ from run to run"
    names = [name for name in strings(constants(node)) if name.lower().endswith(MODEL_SUFFIXES)]
    is_source = not any(is_link(value) for value in node["inputs"].values())
    if not all(graph.files_named(name) for name in names if "\n" not in name) or (
        is_source and not info.is_core and not files
    ):
        return f"{owner} names no file, or one that is in no models folder of this ComfyUI"
    return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
