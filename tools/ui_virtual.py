"""Nodes that only the page has: notes, switches, and those that pass a value on.

Reroutes, primitives and notes are ComfyUI's own; the others are those of the packs KJNodes,
Easy-Use, rgthree and Use Everywhere.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import DevError

PRIMITIVE = "PrimitiveNode"
SETTERS = ("SetNode", "easy setNode")
GETTERS = ("GetNode", "easy getNode")
HAND_ON = ("Reroute", "Reroute (rgthree)", *SETTERS)  # their input is their output
NOTES = ("Note", "MarkdownNote")
# They mute and bypass other nodes; the file then says so at those nodes.
SWITCHES = tuple(f"{name} (rgthree)" for name in (
    "Fast Muter", "Fast Bypasser", "Fast Groups Muter", "Fast Groups Bypasser", "Random Unmuter",
    "Mute / Bypass Relay", "Mute / Bypass Repeater", "Fast Actions Button", "Node Collector"))
BROADCASTS = ("Anything Everywhere", "Anything Everywhere?", "Anything Everywhere3",
              "Prompts Everywhere", "Seed Everywhere")
SERVER_NAME = "Node name for S&R"  # the page gives this property to nodes that a server has
Json = dict[str, Any]


def is_virtual(node: Json, known: Mapping[str, Any]) -> bool:
    """Whether a prompt goes without this node, where the server knows the classes `known`."""
    kind = node["type"]
    if kind in (PRIMITIVE, *HAND_ON, *GETTERS, *NOTES, *SWITCHES):
        return True
    if kind in known or SERVER_NAME in (node.get("properties") or {}):
        return False
    return not _has_wires(node)  # a note or a label of some pack


def _has_wires(node: Json) -> bool:
    return (any(one.get("link") is not None for one in node.get("inputs") or [])
            or any(one.get("links") for one in node.get("outputs") or []))


def refuse_broadcast(node: Json, node_id: str) -> None:
    """DevError for a node that sends values to others without a wire in the file."""
    kind = node["type"]
    linked = any(one.get("link") is not None for one in node.get("inputs") or [])
    outputs = kind == "Seed Everywhere" or (node.get("properties") or {}).get("ue_convert")
    if outputs or (kind in BROADCASTS and linked):
        raise DevError(
            f"Node {node_id} ({kind}) sends values to other nodes without wires, and only the "
            "page of ComfyUI knows to which; save the workflow there with Export (API) and give "
            "that file.")


def setter_of(getter: Json, nodes: Iterable[Json]) -> Json | None:
    """The node among these that a getter gets its value from."""
    return next((node for node in nodes
                 if node["type"] in SETTERS and name_of(node) == name_of(getter)), None)


def name_of(node: Json) -> Any:
    """The name by which setters and getters find each other."""
    values = node.get("widgets_values") or [None]
    return next(iter(values.values())) if isinstance(values, dict) else values[0]


def handed_link(node: Json) -> int | None:
    """The link whose value a reroute or a setter passes on."""
    link: int | None = (node.get("inputs") or [{}])[0].get("link")
    return link
