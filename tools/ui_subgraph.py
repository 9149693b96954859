"""What a workflow file says of its subgraphs: definitions, and the values that instances show."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
INPUTS, OUTPUTS = -10, -20  # what links inside a subgraph give as the id of its own two ends
OWN = "-1"  # the owner of a shown value that is an input of the subgraph


def definitions(workflow: Mapping[str, Any]) -> dict[str, Json]:
    """Every subgraph of a file by its id, which is the `type` of its instances."""
    known = (workflow.get("definitions") or {}).get("subgraphs") or []
    return {graph["id"]: graph for graph in known}


def promoted_values(instance: Json, graph: Json) -> Json:
    """The values that an instance sets, by the input of the subgraph that they come in by.

    Values of inner nodes that are merely shown outside are saved with those nodes.
    """
    values = instance.get("widgets_values") or []
    if isinstance(values, dict):
        return dict(values)
    shown = (instance.get("properties") or {}).get("proxyWidgets")
    names = ([name if str(owner) == OWN else None for owner, name, *_ in shown] if shown
             else _widget_inputs(graph))
    return {name: value for name, value in zip(names, values, strict=False)
            if name is not None and value is not None}


def _widget_inputs(graph: Json) -> list[str]:
    """The inputs of a subgraph that lead to a widget inside."""
    slots = [slot for node in graph["nodes"] for slot in node.get("inputs") or []]
    widgets = {slot.get("link") for slot in slots if slot.get("widget")}
    return [item["name"] for item in graph.get("inputs") or []
            if widgets & set(item.get("linkIds") or [])]
