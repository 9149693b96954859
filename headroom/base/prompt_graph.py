"""Reading a prompt's graph: nodes in API format, the links between them, and widget values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .said import Said, said

Node = Mapping[str, Any]
Prompt = Mapping[str, Node]  # in API format, by node id
GetNode = Callable[[str], Node]

MAX_TITLE = 200
INSERTED = "headroom-"  # how the ids of nodes begin that no user has put into the prompt


@dataclass(frozen=True)
class ClassInfo:
    """What the host knows of a node class.

    `code` identifies the code that runs: the file of the host's own node, else the whole pack.
    `own_changes`: the class itself decides when it counts as changed. `wants_id`: it may behave
    differently under another node id. `repeatable`: the same inputs give the same outputs.
    `is_new_code`: the code changed on disk since this process began.
    """

    code: str = ""
    is_core: bool = True
    own_changes: bool = False
    wants_id: bool = False
    repeatable: bool = True
    is_new_code: bool = False


class Lookup(Protocol):
    """How classes and files are looked up; the host's own, or a double in tests."""

    def node_info(self, class_type: str) -> ClassInfo | None:
        """Return what is known of a class, None for an unknown one."""

    def files_named(self, name: str) -> list[Path]:
        """Return the existing files that a widget value names, in any models folder."""


def getter(prompt: Any) -> GetNode:
    """Return a function from node id to node, for an API prompt or ComfyUI's DynamicPrompt.

    It raises KeyError, or what the DynamicPrompt raises, for an unknown id.
    """
    get_node: GetNode = prompt.get_node if hasattr(prompt, "get_node") else prompt.__getitem__
    return get_node


def is_inserted(node_id: str | None) -> bool:
    """Return whether this node was put in by us, not by the user.

    Loops and other expansions clone nodes under ids of their own, such as "11.0.0." and our id.
    """
    return node_id is not None and INSERTED in node_id


def is_link(value: Any) -> bool:
    """Return whether an input's value is a connection: [node id, output number]."""
    return (
        isinstance(value, list) and len(value) == 2
        and isinstance(value[0], str) and isinstance(value[1], (int, float))
    )


def ancestors(get_node: GetNode, start: str) -> list[str]:
    """Return `start` and every node above it, each one after all that feed it."""
    done: dict[str, None] = {}
    entered: set[str] = set()
    stack: list[tuple[str, bool]] = [(start, False)]
    while stack:
        current, inputs_done = stack.pop()
        if inputs_done:
            done[current] = None
        elif current not in entered:
            entered.add(current)
            stack.append((current, True))
            links = [value for value in get_node(current)["inputs"].values() if is_link(value)]
            stack.extend((link[0], False) for link in reversed(links))
    return list(done)


def constants(node: Node) -> list[Any]:
    """Return the widget values of a node: its inputs that are no links."""
    return [value for value in node["inputs"].values() if not is_link(value)]


def strings(value: Any) -> Iterator[str]:
    """Yield every string inside a widget value; some packs keep dicts and lists there."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def title_given(node: Node) -> str:
    """Return the title that a user gave a node, "" without one; hosts take anything as `_meta`."""
    meta = node.get("_meta")
    given = meta.get("title") if isinstance(meta, Mapping) else None
    return given[:MAX_TITLE] if isinstance(given, str) else ""


def title(node_id: str, node: Node) -> Said:
    """Return how reports name a node."""
    name = node["class_type"]
    return said("node_named", f"node {node_id} ({name})", node_id=node_id, name=name)
