"""Which text encoders a prompt has, and whether two of them are from the same files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..base.file_identity import identity_of
from ..base.graph import Graph
from ..base.node_types import Registry, kinds
from ..base.prompt_node import is_link

MAX_TOLD = 500  # characters
Encoder = dict[str, Any]  # {"class_type", "files": [{"name", "size", "content"}]}


def encoders_above(prompt: Any, node_id: str, registry: Registry) -> list[Encoder]:
    """Return how the encoder of a conditioning was made: its loader first, then LoRAs and so on.

    Raises OSError if one of their files cannot be read.
    """
    graph = Graph(prompt, registry)
    start = graph.nodes[node_id]["inputs"].get("conditioning")
    above = graph.above(start[0]) if is_link(start) else []
    return [_described(graph, ancestor) for ancestor in above if _gives_clip(graph, ancestor)]


def loaders_in(prompt: Mapping[str, Any], registry: Registry) -> list[list[Path]]:
    """Return the files of every node of the prompt that loads a text encoder."""
    graph = Graph(prompt, registry)
    loaders = [node_id for node_id in graph.nodes
               if _gives_clip(graph, node_id) and not graph.wires(node_id)]
    return [files for node_id in loaders if (files := graph.files([node_id]))]


def is_made_of(encoder: Encoder, files: Iterable[Path]) -> bool:
    """Return whether `encoder` came from these files; contents count, names do not."""
    present = sorted(str(identity_of(path)["content"]) for path in files)
    return sorted(file["content"] for file in encoder["files"]) == present


def name_of(encoders: list[Encoder]) -> str:
    """Return a user's names for encoders: their files. Others may have written these names."""
    names = [file["name"] for encoder in encoders for file in encoder["files"]]
    classes = [str(encoder["class_type"]) for encoder in encoders]
    told = ", ".join(names or classes)[:MAX_TOLD] or "an encoder that is not known"
    return "".join(one if one.isprintable() else "?" for one in told)


def _described(graph: Graph, node_id: str) -> Encoder:
    files = [{"name": path.name, **identity_of(path)} for path in graph.files([node_id])]
    return {"class_type": str(graph.nodes[node_id]["class_type"]), "files": files}


def _gives_clip(graph: Graph, node_id: str) -> bool:
    found = graph.node_type(node_id)
    return found is not None and any("CLIP" in kinds(output) for output in found.outputs)
