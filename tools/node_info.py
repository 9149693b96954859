"""What a server's `/object_info` says about its nodes, as a workflow file needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MADE_BY_THE_PAGE = ("LOAD_3D", "WEBCAM", "AUDIO_RECORD")  # when a prompt is queued there
WIDGET_TYPES = frozenset({
    "INT", "FLOAT", "STRING", "BOOLEAN", "COMBO",
    "COLOR", "BOUNDING_BOX", "CURVE", "IMAGECOMPARE", "PAINTER", *MADE_BY_THE_PAGE,
})
SEEDS = ("seed", "noise_seed")  # the frontend gives these a control even where none is asked for
CHOICE = "COMFY_DYNAMICCOMBO"  # a choice that brings inputs of its own, named after it
OWN_OPTIONS = "CustomCombo"  # the page gives it inputs that no server tells of
BUTTONS = ("upload3dmodel", "uploadExtraResources", "clear")  # saved among a LOAD_3D's values
UPLOADS = ("image_upload", "video_upload", "audio_upload", "animated_image_upload")


@dataclass(frozen=True)
class Input:
    """One input: a socket, or a widget that a link may replace."""

    name: str
    type: str
    options: Mapping[str, Any]

    @property
    def is_widget(self) -> bool:
        kind = self.options.get("widgetType", self.type)
        is_one = kind in WIDGET_TYPES or "socketless" in self.options  # only widgets have that
        return is_one and not self.options.get("forceInput")

    @property
    def default(self) -> Any:
        """What its widget shows at first; None where only the page knows."""
        first = (self.options.get("options") or [None])[0]
        shown = {"COMBO": first, "BOOLEAN": False, "IMAGECOMPARE": ""}
        return self.options.get("default", shown.get(self.type))

    @property
    def has_control(self) -> bool:
        """Whether a second widget behind it says what happens to the value after a run."""
        asked = self.options.get("control_after_generate")
        return bool(self.name in SEEDS and self.type == "INT" if asked is None else asked)

    @property
    def has_upload(self) -> bool:
        return any(self.options.get(name) for name in UPLOADS)


@dataclass(frozen=True)
class NodeInfo:
    """A node class as its server describes it."""

    class_type: str
    title: str
    inputs: tuple[Input, ...]

    @property
    def widgets(self) -> tuple[Input, ...]:
        return tuple(item for item in self.inputs if item.is_widget)

    def saved_widgets(self, values: Sequence[Any]) -> list[str | None]:
        """The names behind the entries of these `widgets_values`; None for what is no input."""
        names: list[str | None] = []
        for item in self.unfolded(values).widgets:
            names += [item.name, None] if item.has_control else [item.name]
        names += [None] * sum(item.has_upload for item in self.inputs)
        if any(item.type == "LOAD_3D" for item in self.inputs):
            for at, value in enumerate(values):
                if value in BUTTONS:
                    names.insert(at, None)
        if self.class_type == OWN_OPTIONS:
            rest = values[len(names):]
            index = ["index"] if rest and isinstance(rest[0], int) else []
            names += [*index, *(f"option{n + 1}" for n in range(len(rest) - len(index)))]
        return names

    def saved_values(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The values that a node of a file has, by name, in whichever form they are saved."""
        by_name = node.get("widgets_values_named")  # of newer pages
        values = by_name or node.get("widgets_values") or []
        if not isinstance(values, Mapping):
            return {name: value for name, value in zip(
                self.saved_widgets(values), values, strict=False) if name is not None}
        known = {item.name for item in self.unfolded(values).widgets}
        is_open = self.class_type == OWN_OPTIONS or not by_name
        return {name: value for name, value in values.items()
                if name in known or (is_open and isinstance(value, (str, int, float)))}

    def unfolded(self, values: Sequence[Any] | Mapping[str, Any]) -> "NodeInfo":
        """The same with the inputs that its choices bring, for these `widgets_values`."""
        if not any(item.type.startswith(CHOICE) for item in self.inputs):
            return self
        found: list[Input] = []
        pending, at = list(self.inputs), 0
        while pending:
            item = pending.pop(0)
            if item.type.startswith(CHOICE):
                item, brought = _chosen(item, _value(values, item.name, at))
                pending = brought + pending
            found.append(item)
            at += (1 + item.has_control) * item.is_widget
        return replace(self, inputs=tuple(found))


def _value(values: Sequence[Any] | Mapping[str, Any], name: str, at: int) -> Any:
    if isinstance(values, Mapping):
        return values.get(name)
    return values[at] if at < len(values) else None


def _chosen(choice: Input, value: Any) -> tuple[Input, list[Input]]:
    """A choice as a plain COMBO, and the inputs of its value (of the first if it has none)."""
    known = {one["key"]: one.get("inputs") or {} for one in choice.options.get("options") or []}
    keys = list(known)
    inputs = known.get(value, known[keys[0]]) if keys else {}
    options = {"default": keys[0] if keys else None, **choice.options, "options": keys}
    return replace(choice, type="COMBO", options=options), [
        replace(item, name=f"{choice.name}.{item.name}") for item in _inputs(inputs, {})]


def node_infos(object_info: Mapping[str, Any]) -> dict[str, NodeInfo]:
    """Every node class of an `/object_info` answer."""
    return {name: _node_info(name, data) for name, data in object_info.items()}


def _node_info(name: str, data: Mapping[str, Any]) -> NodeInfo:
    inputs = _inputs(data.get("input") or {}, data.get("input_order") or {})
    return NodeInfo(name, str(data.get("display_name") or name), tuple(inputs))


def _inputs(sections: Mapping[str, Any], order: Mapping[str, Any]) -> list[Input]:
    inputs = []
    for section in ("required", "optional"):
        specs = sections.get(section) or {}
        for key in order.get(section) or specs:
            inputs.append(_input(key, specs[key]))
    return inputs


def _input(name: str, spec: list[Any]) -> Input:
    options = dict(spec[1]) if len(spec) > 1 and isinstance(spec[1], dict) else {}
    if not isinstance(spec[0], str):  # a list of choices is an older way to write COMBO
        return Input(name, "COMBO", {**options, "options": spec[0]})
    return Input(name, spec[0], options)
