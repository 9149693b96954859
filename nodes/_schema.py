"""Schema fields that only newer ComfyUIs know, and wires that keep their type if possible."""

import inspect
from typing import Any

from comfy_api.latest import io

CATEGORY = "Headroom"


def schema(**fields: Any) -> io.Schema:
    """Return an io.Schema with the fields this ComfyUI knows; others (search_aliases) are dropped.

    On the oldest supported ComfyUI an unknown field raises TypeError, and the pack does not load.
    """
    known = inspect.signature(io.Schema).parameters
    return io.Schema(
        category=CATEGORY, **{name: value for name, value in fields.items() if name in known}
    )


def any_wire(
    id: str, tooltip: str, optional: bool = False, output_tooltip: str | None = None,
    is_output_list: bool = False,
) -> tuple[Any, Any]:
    """Return the input `id` and the output `id`_out of any type, the same type if possible.

    A ComfyUI with a complete MatchType gives the output the type of the connected wire; older ones
    show a grey socket that accepts any connection.
    """
    labels: dict[str, Any] = {
        "tooltip": output_tooltip or "The same object that came in.",
        "is_output_list": is_output_list,
    }
    if _has_match_type():
        template = io.MatchType.Template(id)
        return (
            io.MatchType.Input(id, template=template, optional=optional, tooltip=tooltip),
            io.MatchType.Output(template, id=f"{id}_out", display_name=id, **labels),
        )
    return (
        io.AnyType.Input(id, optional=optional, tooltip=tooltip),
        io.AnyType.Output(f"{id}_out", display_name=id, **labels),
    )


def _has_match_type() -> bool:
    """The oldest ComfyUIs have an incomplete MatchType, which does not accept every type."""
    allowed = inspect.signature(io.MatchType.Template).parameters["allowed_types"]
    return allowed.default is not inspect.Parameter.empty


def report_output(tooltip: str = "What was measured before and after, as text.") -> Any:
    """Return the STRING output that every node with a report has."""
    return named_output(io.String, "report", tooltip)


def named_output(kind: Any, id: str, tooltip: str, is_output_list: bool = False) -> Any:
    """Return an output whose socket shows its own name; by default ComfyUI shows the type."""
    name = id.removesuffix("_out")
    return kind.Output(id, display_name=name, tooltip=tooltip, is_output_list=is_output_list)
