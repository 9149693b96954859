"""What is known of a prompt that ran out of memory: where, what for, and what had finished."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..device import MIB
from ..loaded import LoadedModel
from ..oom import Where, requested_bytes, where_of, where_of_text

ErrorTitle = Callable[[str], str]


class Held(NamedTuple):
    """A model that was loaded when memory ran out."""

    kind: str
    class_name: str
    loaded_bytes: int


class Heard(NamedTuple):
    """What could be seen of the error itself, before ComfyUI unloaded everything."""

    where: Where
    text: str
    held: tuple[Held, ...]

    @classmethod
    def of(cls, error: BaseException, models: list[LoadedModel]) -> "Heard":
        held = [Held(m.kind, m.class_name, m.loaded_bytes) for m in models if m.loaded_bytes > 0]
        held.sort(key=lambda model: -model.loaded_bytes)
        return cls(where_of(error) or "device", str(error), tuple(held))


@dataclass(frozen=True)
class Failure:
    """A prompt that ended in an out-of-memory error, as it stood in the queue."""

    prompt_id: str
    number: float
    prompt: Mapping[str, Any]
    extra_data: Mapping[str, Any]
    outputs: tuple[str, ...]
    node_id: str
    class_type: str
    where: Where
    error: str  # its first line, with its type
    asked_bytes: int | None
    held: tuple[Held, ...]
    finished: frozenset[str]
    volatile: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """What the user calls the node that failed; its class where that is not told."""
        meta = (self.prompt.get(self.node_id) or {}).get("_meta") or {}
        return str(meta.get("title") or self.class_type)

    def as_json(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "class_type": self.class_type,
            "title": self.title,
            "where": "RAM" if self.where == "RAM" else "GPU",
            "asked_mib": None if self.asked_bytes is None else _mib(self.asked_bytes),
            "held": [
                {"kind": model.kind, "class": model.class_name, "loaded_mib": _mib(
                    model.loaded_bytes)} for model in self.held
            ],
            "error": self.error,
        }


def failure_of(
    entry: Mapping[str, Any], heard: Heard | None, volatile: frozenset[str] = frozenset()
) -> Failure | None:
    """Return how a prompt of ComfyUI's history ran out of memory; None where it did not.

    `heard` is what was seen of its error; without it the type and the text in the history tell.
    """
    messages = {name: data for name, data in (entry.get("status") or {}).get("messages") or []}
    error = messages.get("execution_error")
    if error is None or "execution_interrupted" in messages:
        return None
    kind, text = str(error.get("exception_type")), str(error.get("exception_message"))
    where = heard.where if heard is not None else where_of_text(kind, text)
    if where is None:
        return None
    number, prompt_id, prompt, extra_data, outputs = entry["prompt"][:5]
    cached = messages.get("execution_cached", {}).get("nodes") or []
    shown = heard.text if heard is not None else text
    return Failure(
        prompt_id=str(prompt_id), number=number, prompt=prompt, extra_data=extra_data,
        outputs=tuple(outputs), node_id=str(error.get("node_id")),
        class_type=str(error.get("node_type")), where=where, error=_first_line(kind, shown),
        asked_bytes=requested_bytes(shown), held=() if heard is None else heard.held,
        finished=frozenset(map(str, [*cached, *(error.get("executed") or [])])),
        volatile=volatile,
    )


def _first_line(kind: str, text: str) -> str:
    lines = text.strip().splitlines()
    return f"{kind.rpartition('.')[2]}: {lines[0] if lines else 'no text'}"[:300]


def _mib(amount_bytes: int) -> float:
    return round(amount_bytes / MIB, 3)
