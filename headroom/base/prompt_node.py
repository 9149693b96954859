"""A single node of a prompt: its links, the values of its widgets, its title."""

import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import ModuleType
from typing import Any

Node = Mapping[str, Any]

MAX_TITLE = 200
_ACTING = ("Cc", "Cs", "Zl", "Zp")  # Unicode's kinds of letters: control, half a pair, line ends
MAX_OUTPUT = 1 << 31  # JSON has NaN, infinities and numbers of any length
MODEL_SUFFIXES = (
    ".safetensors", ".sft", ".ckpt", ".pt", ".pt2", ".pth", ".bin", ".gguf", ".pkl", ".onnx",
    ".yaml",
)


def is_node(node: Any) -> bool:
    """Return whether a value in a prompt is a node; ComfyUI accepts anything there."""
    return (isinstance(node, Mapping) and isinstance(node.get("inputs"), Mapping)
            and isinstance(node.get("class_type"), str))


def is_link(value: Any) -> bool:
    """Return whether an input's value is a connection: [node id, output number]."""
    return (
        isinstance(value, list) and len(value) == 2
        and isinstance(value[0], str) and isinstance(value[1], (int, float))
        and abs(value[1]) < MAX_OUTPUT
    )


def constants(node: Node) -> list[Any]:
    """Return the widget values of a node: its inputs that are no links."""
    return [value for value in node["inputs"].values() if not is_link(value)]


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a widget value; some packs store dicts and lists there."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def names_a_model(node: Node) -> bool:
    return any(is_model_name(value) for value in strings(constants(node)))


def is_model_name(value: str) -> bool:
    suffix = PurePath(value).suffix.lower()
    return suffix in MODEL_SUFFIXES and suffix != ".yaml" and "\n" not in value


def title_given(node: Node) -> str:
    """Return the user's title of a node, or ""; ComfyUI accepts anything as `_meta`.

    A title goes to logs and terminals: line ends and other codes that act there become spaces.
    """
    meta = node.get("_meta")
    given = meta.get("title") if isinstance(meta, Mapping) else None
    title = given[:MAX_TITLE] if isinstance(given, str) else ""
    return "".join(" " if unicodedata.category(one) in _ACTING else one for one in title)


def title_of(prompt: Mapping[str, Node], node_id: str) -> str:
    """Return the title of a node, or of the node that expanded to it; without a title its class."""
    node = prompt.get(node_id) or prompt.get(node_id.partition(".")[0]) or {}
    return title_given(node) or str(node.get("class_type", node_id))


def name_below(name: str, paths: ModuleType = os.path) -> str:
    """Return a name as a path that cannot leave its folder: no drive, no root, no "..".

    `os.path.relpath` does that too, but raises on Windows for a path on another drive.
    """
    drive, rest = paths.splitdrive(name)
    while drive:
        drive, rest = paths.splitdrive(rest)
    return str(paths.normpath(paths.join(paths.sep, rest))).lstrip(paths.sep)
