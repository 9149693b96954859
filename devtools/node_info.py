"""What a server's `/object_info` says about its nodes, as a workflow file needs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WIDGET_TYPES = frozenset({"INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"})
SEEDS = ("seed", "noise_seed")  # the frontend gives these a control even where none is asked for
UPLOADS = ("image_upload", "video_upload", "audio_upload", "animated_image_upload")


@dataclass(frozen=True)
class Input:
    """One input: a socket, or a widget that a link may replace."""

    name: str
    type: str
    options: Mapping[str, Any]
    required: bool

    @property
    def is_widget(self) -> bool:
        return self.type in WIDGET_TYPES and not self.options.get("forceInput")

    @property
    def has_control(self) -> bool:
        """Whether a second widget behind it says what happens to the value after a run."""
        asked = self.options.get("control_after_generate")
        return bool(self.name in SEEDS and self.type == "INT" if asked is None else asked)

    @property
    def has_upload(self) -> bool:
        return any(self.options.get(name) for name in UPLOADS)

    @property
    def lines(self) -> int:
        """Lines of text that its widget shows."""
        return 5 if self.options.get("multiline") else 1


@dataclass(frozen=True)
class NodeInfo:
    """A node class as its server describes it."""

    class_type: str
    title: str
    inputs: tuple[Input, ...]
    outputs: tuple[tuple[str, str], ...]  # type and name of each

    @property
    def widgets(self) -> tuple[Input, ...]:
        return tuple(item for item in self.inputs if item.is_widget)

    @property
    def sockets(self) -> tuple[Input, ...]:
        return tuple(item for item in self.inputs if not item.is_widget)

    def input(self, name: str) -> Input:
        """The input of that name; KeyError names the class and the inputs that it has."""
        for item in self.inputs:
            if item.name == name:
                return item
        raise KeyError(f"{self.class_type} has no input {name!r}; it has {self._input_names()}")

    def _input_names(self) -> str:
        return ", ".join(item.name for item in self.inputs)

    def saved_widgets(self) -> list[str | None]:
        """The names behind the entries of `widgets_values`; None for what is no input."""
        names: list[str | None] = []
        for item in self.widgets:
            names += [item.name, None] if item.has_control else [item.name]
        return names + [None] * sum(item.has_upload for item in self.inputs)


def node_infos(object_info: Mapping[str, Any]) -> dict[str, NodeInfo]:
    """Every node class of an `/object_info` answer."""
    return {name: _node_info(name, data) for name, data in object_info.items()}


def _node_info(name: str, data: Mapping[str, Any]) -> NodeInfo:
    inputs = []
    for section in ("required", "optional"):
        specs = data.get("input", {}).get(section) or {}
        order = (data.get("input_order") or {}).get(section) or list(specs)
        inputs += [_input(key, specs[key], section == "required") for key in order]
    kinds = [kind if isinstance(kind, str) else "COMBO" for kind in data.get("output") or ()]
    names = data.get("output_name") or kinds
    outputs = tuple(
        (kind, str(label)) for kind, label in zip(kinds, names, strict=False)
    )
    return NodeInfo(name, str(data.get("display_name") or name), tuple(inputs), outputs)


def _input(name: str, spec: list[Any], required: bool) -> Input:
    options = dict(spec[1]) if len(spec) > 1 and isinstance(spec[1], dict) else {}
    if not isinstance(spec[0], str):  # a list of choices is an older way to write COMBO
        return Input(name, "COMBO", {**options, "options": spec[0]}, required)
    return Input(name, spec[0], options, required)
