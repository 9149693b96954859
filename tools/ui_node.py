"""A node as the canvas saves it: sockets, values, and the room that it takes."""

from collections.abc import Mapping
from typing import Any

from .node_info import Input, NodeInfo

Json = dict[str, Any]
WIDTH, GAP, HEADER, ROW, TEXT_ROW = 270, 40, 34, 24, 18
FIRST_Y, SLOT_ROW = 26, 20


def dress(node: Json, info: NodeInfo, given: Mapping[str, Any]) -> None:
    """Give a node the sockets and values of a class."""
    node["type"] = info.class_type
    node["properties"] = {"Node name for S&R": info.class_type}
    node["inputs"] = [{"name": item.name, "type": item.type, "link": None}
                      for item in info.sockets]
    node["outputs"] = [{"name": name, "type": kind, "links": []} for kind, name in info.outputs]
    node["widgets_values"] = saved(info, given)
    node.pop("widgets_values_named", None)


def saved(info: NodeInfo, given: Mapping[str, Any]) -> list[Any]:
    by_name = {item.name: given.get(item.name, _default(item)) for item in info.widgets}
    return [None if name is None else by_name[name] for name in info.saved_widgets()]


def _default(item: Input) -> Any:
    options = item.options.get("options") or [None]
    return item.options.get("default", options[0] if item.type == "COMBO" else None)


def set_value(node: Json, info: NodeInfo, name: str, value: Any) -> None:
    """Change one value of a node; the others, and what else is saved among them, stay."""
    values = node.get("widgets_values") or []
    if node.get("widgets_values_named"):
        node["widgets_values_named"][name] = value
    if isinstance(values, dict):
        values[name] = value
    else:
        names = info.saved_widgets(values)
        values = [*values, *saved(info, {})[len(values):]]
        values[names.index(name)] = value
    node["widgets_values"] = values


def height(info: NodeInfo) -> int:
    slots = max(len(info.sockets), len(info.outputs))
    widgets = sum(ROW + TEXT_ROW * (item.lines - 1) for item in info.widgets)
    return FIRST_Y + SLOT_ROW * slots + widgets


def box(node: Json) -> tuple[float, float, float, float]:
    """x, y, width and height with the title bar, which is above `pos`."""
    x, y = _pair(node.get("pos"), (0, 0))
    width, height = _pair(node.get("size"), (WIDTH, 100))
    return x, y, width, height


def _pair(value: Any, otherwise: tuple[float, float]) -> tuple[float, float]:
    if isinstance(value, dict):
        return float(value["0"]), float(value["1"])
    return (float(value[0]), float(value[1])) if value else otherwise


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return (
        one[0] < other[0] + other[2] + GAP / 2 and other[0] < one[0] + one[2] + GAP / 2
        and one[1] - HEADER < other[1] + other[3] and other[1] - HEADER < one[1] + one[3]
    )
