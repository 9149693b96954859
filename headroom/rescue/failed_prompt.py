"""What is known about a prompt that ran out of memory: where, what for, and what had finished."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.device import MIB, in_mib
from ..base.error_table import Row, Where, first_line, row_of
from ..base.graph import Graph
from ..base.prompt_node import title_given
from ..guard.errors import OomGuardError, requested_bytes, where_of, where_of_text
from ..host.types import Held, messages_of


class SeenError(NamedTuple):
    """What was known of the error itself, before ComfyUI unloaded everything."""

    node_id: str | None
    where: Where
    kind: str
    text: str
    held: tuple[Held, ...]
    told_as: tuple[str, str] | None = None  # type and text of the error that the node raised
    is_stop: bool = False  # no error: the prompt was interrupted before RAM ran out
    shown: str | None = None  # the node on the canvas, if a loop made `node_id` from it
    is_final: bool = False  # OOM Guard gave up, and a rerun cannot do more

    @classmethod
    def of(
        cls, error: BaseException, node_id: str | None, models: list[Held]
    ) -> "SeenError":
        held = sorted((one for one in models if one.bytes >= MIB), key=lambda one: -one.bytes)
        kind = type(error).__name__
        is_final = isinstance(error, OomGuardError) and error.is_final
        return cls(node_id, where_of(error) or "device", kind, str(error), tuple(held),
                   is_final=is_final)

    def is_cause_of(self, node_id: str, kind: str, text: str) -> bool:
        """Return whether this is the error that a node ended with, or the cause of that error.

        After an out-of-memory error ComfyUI tries a VAE in tiles. If memory ran out while the VAE
        was loaded, the tiles fail too, because half of it is still on the CPU.
        """
        if node_id == self.node_id and kind == "RuntimeError":
            return True
        name = kind.rpartition(".")[2]
        return any(name == kind and text.startswith(start)
                   for kind, start in ((self.kind, self.text), self.told_as or (None, "")))


@dataclass(frozen=True)
class FailedPrompt:
    """A prompt that ended in an out-of-memory error, as it was in the queue."""

    prompt_id: str
    number: float
    prompt: Mapping[str, Any]
    extra_data: Mapping[str, Any]
    outputs: tuple[str, ...]
    node_id: str
    class_type: str
    where: Where
    error: str  # its first line, with its type
    row: Row | None  # what is known of such errors
    asked_bytes: int | None
    held: tuple[Held, ...]
    finished: frozenset[str]
    wrong: frozenset[str] = frozenset()  # finished, but without a part of their work
    marks: Mapping[str, Any] = field(default_factory=dict)  # each node's own mark of change
    # What finished under an id of its own, such as a turn of a loop: which node of the prompt
    # created it, and which node on the canvas it is.
    created: frozenset[tuple[str, str]] = frozenset()
    is_stop: bool = False  # interrupted by us before RAM ran out
    is_final: bool = False  # OOM Guard gave up, and a rerun cannot do more
    begun: frozenset[str] = frozenset()  # the one that failed, and async nodes beside it

    @property
    def title(self) -> str:
        """The user's title of the node that failed, or its class."""
        return title_given(self.prompt.get(self.node_id) or {}) or self.class_type

    def as_json(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "class_type": self.class_type,
            "title": self.title,
            "where": "RAM" if self.where == "RAM" else "GPU",
            "stopped": self.is_stop,
            "asked_mib": in_mib(self.asked_bytes),
            "held": [
                {"kind": one.model.kind, "class": one.model.class_name, "file": one.model.file,
                 "loaded_mib": in_mib(one.bytes)} for one in self.held
            ],
            "error": self.error,
        }


def failure_of(
    entry: Mapping[str, Any], heard: SeenError | None, marks: Mapping[str, Any] | None = None,
    left_out: Collection[str] = (), shown: Mapping[str, str] | None = None,
    begun: Collection[str] = (),
) -> FailedPrompt | None:
    """Return how a prompt in ComfyUI's history ran out of memory; None if it did not.

    `heard`: what was seen of its error; without it, type and text in the history count. `left_out`:
    the nodes in which ComfyUI continued without a part before that. Their results are wrong, and so
    are all results made from them. `shown`: the nodes on the canvas, by nodes that ran. `begun`:
    the nodes on the canvas that had begun and not finished.
    """
    messages = messages_of(entry.get("status"))
    error, interrupted = messages.get("execution_error"), messages.get("execution_interrupted")
    if heard is not None and heard.is_stop:
        error = interrupted and {
            **interrupted, "exception_type": heard.kind, "exception_message": heard.text}
    if error is None:
        return None
    number, prompt_id, prompt, extra_data, outputs = entry["prompt"][:5]
    cached = frozenset(map(str, messages.get("execution_cached", {}).get("nodes") or []))
    own = [one if one in prompt else _maker(one) for one in left_out]
    wrong = tainted(Graph(prompt), own, cached)
    node_id, class_type = str(error.get("node_id")), str(error.get("node_type"))
    seen = _seen(node_id, error, heard)
    if seen is None:
        return None
    if seen.shown in prompt:  # for a node in a loop ComfyUI names the loop's begin node
        node_id = str(seen.shown)
        class_type = str(prompt[node_id]["class_type"])
    ran = executed(entry)
    created = frozenset((_maker(one), (shown or {}).get(one, one)) for one in ran
                        if one not in prompt)
    return FailedPrompt(
        prompt_id=str(prompt_id), number=number, prompt=prompt, extra_data=extra_data,
        outputs=tuple(outputs), node_id=node_id, class_type=class_type, where=seen.where,
        error=first_line(seen.kind, seen.text), row=row_of(seen.kind, seen.text),
        asked_bytes=requested_bytes(seen.text), held=seen.held,
        finished=(cached | ran) - wrong - {node_id}, wrong=wrong, marks=marks or {},
        created=created, is_stop=seen.is_stop, is_final=seen.is_final, begun=frozenset(begun),
    )


def _maker(created: str) -> str:
    """Return the node of the prompt that created another one by expansion."""
    return created.partition(".")[0]


def row_of_entry(entry: Mapping[str, Any]) -> Row | None:
    """Return what is known about the error that ended a prompt in ComfyUI's history."""
    error = messages_of(entry.get("status")).get("execution_error") or {}
    return row_of(str(error.get("exception_type")), str(error.get("exception_message")))


def executed(entry: Mapping[str, Any]) -> frozenset[str]:
    """Return the nodes that had run when a prompt failed, and those that other nodes created."""
    messages = messages_of(entry.get("status"))
    error = messages.get("execution_error") or messages.get("execution_interrupted") or {}
    return frozenset(map(str, error.get("executed") or []))


def _seen(
    node_id: str, error: Mapping[str, Any], heard: SeenError | None
) -> SeenError | None:
    """Return a node's error; None if it was not about memory."""
    kind, text = str(error.get("exception_type")), str(error.get("exception_message"))
    if heard is not None and heard.is_cause_of(node_id, kind, text):
        return heard  # else the node continued after that one
    where = where_of_text(kind, text)
    return None if where is None else SeenError(node_id, where, kind, text, ())


def tainted(graph: Graph, left_out: Collection[str], cached: frozenset[str]) -> frozenset[str]:
    """Return the nodes with wrong results: where a part was left out, and those that follow.

    Weights without their LoRA stay loaded, so other nodes with the same model are wrong too.
    """
    starts = [node for node in left_out if node in graph.nodes]
    sharing = {other.taker for node in starts for wire in graph.wires(node)
               for other in graph.takers(*wire.source) if other.taker not in cached}
    return frozenset(graph.below(*starts, *sharing))
