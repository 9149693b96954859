"""The inputs and outputs of a prompt's nodes, from the server's node registry."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

# A ControlNet has no guard on its own wire: the guard on the model that uses it guards it too.
GUARDABLE = frozenset({"MODEL", "CLIP", "VAE", "UPSCALE_MODEL"})
HANDED_ON = GUARDABLE | {"CONTROL_NET"}
GUARD_CLASS = "HeadroomOOMGuard"
_DYNAMIC = "COMFY_"  # V3 types that mean other types: COMFY_MATCHTYPE_V3, COMFY_AUTOGROW_V3 ...
_SAME = "COMFY_MATCHTYPE"  # passes its input on


class NodeType(NamedTuple):
    """The types of one node class: by input name, and by output number.

    `lists`: for each output whether it is a list, so that the nodes after it run once for each
    item. `loop_boundary`: "start" or "end" for a class that begins or ends one of ComfyUI's loops.
    `is_paid`: an API node; what it asks costs money. `checks_types`: its own validation is told the
    type that each of its wires declares.
    """

    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    is_output: bool = False
    lists: tuple[bool, ...] = ()
    takes_lists: bool = False
    loop_boundary: str | None = None
    is_paid: bool = False
    checks_types: bool = False

    def output(self, number: Any) -> str:
        """Return the type of an output; "*" for one that the class does not declare."""
        known = isinstance(number, int) and 0 <= number < len(self.outputs)
        return self.outputs[number] if known else "*"

    def gives_list(self, number: Any) -> bool:
        return isinstance(number, int) and 0 <= number < len(self.lists) and self.lists[number]

    def input(self, name: str) -> str:
        """Return the type of an input; inputs that grow are declared by the part before the dot."""
        return self.inputs.get(name) or self.inputs.get(name.partition(".")[0], "*")

    @property
    def uses_models(self) -> bool:
        """Whether the node may compute with a model, and not only return it patched or merged."""
        return self.is_output or any(not kinds(out) <= HANDED_ON for out in self.outputs)

    def computes_with(self, kind: str) -> bool:
        """Whether the node may compute with a model of this type, also inside another type."""
        return self.uses_models or not any(kinds(kind) & kinds(out) for out in self.outputs)


class ClassInfo(NamedTuple):
    """What else ComfyUI knows of a node class, for code that stores what a node returned.

    `code`: identifies the code that runs: the file of ComfyUI's own node, else the whole pack.
    `own_changes`: the class itself decides when it counts as changed. `wants_id`: it may behave
    differently under another node id. `repeatable`: the same inputs always lead to the same
    outputs. `is_new_code`: the code has changed on disk since this process began.
    """

    code: str = ""
    is_core: bool = True
    own_changes: bool = False
    wants_id: bool = False
    repeatable: bool = True
    is_new_code: bool = False


class Registry:
    """The node classes of a server, and its models folders; this one knows nothing."""

    def node_type(self, class_type: str) -> NodeType | None:
        """Return the types of a class; None for one that is not installed."""
        return None

    def class_info(self, class_type: str) -> ClassInfo | None:
        """Return what else is known of a class; None for one that is not installed."""
        return None

    def with_new_names(self, prompt: dict[str, Any]) -> dict[str, Any]:
        """Return a posted prompt after nodes of older names were replaced in it."""
        return prompt

    def files_named(self, name: str) -> list[Path]:
        """Return the existing files that a widget value names, in any models folder."""
        return []

    def is_core(self, type_name: str) -> bool:
        """Return whether ComfyUI's own nodes return this type; other types may contain models."""
        return False


NO_NODES = Registry()


def kinds(type_name: str) -> frozenset[str]:
    """Return the types that an input or output declares: "MODEL,CLIP" is two."""
    return frozenset(part.strip() for part in type_name.split(","))


def is_wildcard(type_name: str) -> bool:
    """Return whether the type is unknown: any value, or one that only other wires decide."""
    return type_name == "*" or type_name.startswith(_DYNAMIC)


def is_guardable(given: str, taken: str) -> bool:
    """Return whether a wire between these types brings a node a model that can be guarded.

    It ignores a wire that ComfyUI's validation refuses anyway.
    """
    if is_wildcard(given):
        return kinds(taken) <= GUARDABLE
    if not kinds(given) <= GUARDABLE:
        return False
    grows = taken.startswith(_DYNAMIC) and not taken.startswith(_SAME)
    return grows or bool(kinds(given) & kinds(taken))


def from_object_info(info: Mapping[str, Any]) -> NodeType:
    """Return the types of a class from its description in `GET /object_info`.

    `loop_boundary` and `checks_types` are not part of that, but may be added to it.
    """
    groups = [info.get("input", {}).get(group) or {} for group in ("required", "optional")]
    inputs = {name: _named(spec) for group in groups for name, spec in group.items()}
    outputs = tuple(_named([kind]) for kind in info.get("output", ()))
    lists = tuple(map(bool, info.get("output_is_list") or ()))
    takes_lists = bool(info.get("is_input_list"))
    return NodeType(inputs, outputs, bool(info.get("output_node")), lists, takes_lists,
                    info.get("loop_boundary"), bool(info.get("api_node")),
                    bool(info.get("checks_types")))


def _named(spec: Any) -> str:
    """Return the name of a declared type; a list of choices is a combo box."""
    kind = spec[0] if isinstance(spec, (list, tuple)) and spec else spec
    return str.__str__(kind) if isinstance(kind, str) else "COMBO"
