"""What ComfyUI tells about runs and their nodes, in types of our own."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..base.device import in_mib

RunStatus = Literal["running", "success", "error", "interrupted"]

# The prompt whose change marks are wanted, while no prompt or another one runs.
asked_about: ContextVar[Mapping[str, Any] | None] = ContextVar("headroom_asked", default=None)


class Previews(NamedTuple):
    """How the samplers' previews are drawn, as ComfyUI's command line names it ("none", "taesd").

    `model_bytes`: of the file of the model that draws them; 0: no model, None: not known.
    `pixel_bytes`: what the model needs per pixel of the picture while it draws; 0: not known.
    """

    method: str
    model_bytes: int | None
    pixel_bytes: int = 0

    @property
    def by_model(self) -> bool:
        return self.model_bytes != 0


class NodeLabel(NamedTuple):
    """The names of a node, and the node on the canvas that it belongs to."""

    node_id: str
    class_type: str
    title: str
    display_node_id: str
    parent_node_id: str | None = None
    is_async: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a prompt ended by ComfyUI's account, which node raised, and what came from the cache.

    `error`: the class and the text of what the node raised.
    """

    status: RunStatus
    failed_node_id: str | None = None
    cached_node_ids: tuple[str, ...] = ()
    error: tuple[str, str] | None = None


class Cached(NamedTuple):
    """The nodes with a result in the node cache, and the change mark of each node that has one."""

    nodes: frozenset[str]
    marks: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One set of weights that ComfyUI loads, as it was when first seen, in bytes.

    `id`: as in GET /headroom/memory; `file`: None on a ComfyUI that does not remember it.
    `float32_bytes`: how much of it is float32 on the GPU. `is_dynamic`: it is loaded in pages.
    `stays`: unloading it moves nothing (--gpu-only).
    """

    id: str
    kind: str
    class_name: str
    file: str | None
    total_bytes: int
    float32_bytes: int = 0
    is_dynamic: bool = False
    stays: bool = False


class Held(NamedTuple):
    """How many bytes of a model are on a device at one moment."""

    model: ModelFacts
    device: str
    bytes: int

    def as_json(self) -> dict[str, Any]:
        model = self.model
        return {"id": model.id, "kind": model.kind, "class": model.class_name, "file": model.file,
                "device": self.device, "loaded_mib": in_mib(self.bytes),
                "total_mib": in_mib(model.total_bytes), "dynamic": model.is_dynamic}


def messages_of(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the messages in the `status` of a history entry, by the name of each."""
    return dict((status or {}).get("messages") or [])
