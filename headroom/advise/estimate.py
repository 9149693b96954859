"""An estimate of whether a workflow fits this GPU, before it runs and in a moment.

If there was a run with the same nodes, files and sizes, it is taken from that; else from the
headers of the model files, and a rule of thumb for what computing needs.
"""

from collections.abc import Iterator
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

from ..base.device import MIB, in_mib
from ..base.graph import Graph
from ..base.node_types import kinds
from ..base.prompt_node import constants, is_model_name, strings
from ..base.said import Said, said, said_json
from ..base.weights_file import Weights, weights_of
from ..host.reserve import left_bytes
from ..measure.snapshot import DeviceMemory
from .fits import USABLE
from .picture_size import Size, largest_size

Json = dict[str, Any]
MOST_NODES, MOST_FILES, NAMES_TOLD = 5000, 200, 8
# The driver's context: the least, and with what ComfyUI computes on the card.
LEAST_CONTEXT_BYTES, CONTEXT_BYTES = 250 * MIB, 500 * MIB
PATCHED = frozenset({"MODEL", "CLIP"})
UNKNOWN = {
    "missing": "Not all of its models are known: it needs more than {low_mib}, and {room_mib} are "
               "available.",
    "none": "No node names a model file: it needs more than {low_mib}, and {room_mib} are "
            "available.",
}
NAMES = {
    "missing": "Not counted, because no models folder has them: {names}.",
    "broken": "Counted by size on disk, because their headers are broken: {names}.",
}


class Model(NamedTuple):
    """A file that a loader names. `is_patch`: a LoRA, which is merged into another's weights."""

    name: str
    weights: Weights
    is_patch: bool
    is_8_bit: bool

    @property
    def least_bytes(self) -> int:
        """Its largest part: it must be on the GPU at once if nothing is to stream."""
        if self.is_patch:
            return 0
        parts = self.weights.parts_8_bit if self.is_8_bit else self.weights.parts
        return max(parts.values(), default=0)


def estimate(graph: Graph, like: tuple[str, Json] | None, device: DeviceMemory | None) -> Json:
    """Return the route's answer; `lines` say it in words, the verdict first.

    `like`: the newest run of the same kind, and what fits.py says about it. Raises ValueError for a
    prompt with far too many nodes or files.
    """
    if len(graph.nodes) > MOST_NODES:
        raise ValueError(said("Expected a workflow of at most {most} nodes, but this one has "
                              "{count}.", most=MOST_NODES, count=len(graph.nodes)))
    nodes = _needed(graph)
    models, missing = _models(graph, nodes)
    size = largest_size(graph, nodes)
    low, high, basis = _measured(like[1]) if like is not None else _by_headers(models, size)
    total = None if device is None else device.total_bytes
    room = None if device is None or total is None else min(
        total - max(left_bytes(device.other_bytes or 0), round((1 - USABLE) * total)),
        total if device.ceiling is None else device.ceiling.limit_bytes)
    failed = like is not None and like[1]["at_least"]
    known = like is not None or bool(models) and not missing
    unknown = None if known else "missing" if missing else "none"
    verdict, word = _verdict(low, high, room, failed, unknown)
    broken = [model.name for model in models if model.weights.is_broken]
    lines = [word, *basis, *_names("missing", missing), *_names("broken", broken)]
    return {
        "kind": "measured" if like is not None else "headers",
        "run": None if like is None else like[0],
        "needs_mib": [in_mib(low), in_mib(high)], "verdict": verdict, "total_mib": in_mib(total),
        "room_mib": in_mib(room),
        "size": size._asdict(),
        "models": [{"file": model.name, "mib": in_mib(model.weights.bytes)} for model in models],
        "not_counted": missing,
        "lines": [{"text": line, "said": said_json(line)} for line in lines],
    }


def _needed(graph: Graph) -> list[str]:
    """Return the nodes that an output needs; ComfyUI runs no others."""
    ends = [node_id for node_id in graph.nodes
            if (declared := graph.node_type(node_id)) is not None and declared.is_output]
    return graph.above(*(ends or graph.nodes))


def _models(graph: Graph, nodes: list[str]) -> tuple[list[Model], list[str]]:
    """Return the model files that the nodes name, and the names that no models folder has."""
    found: dict[str, Model | None] = {}
    for node_id in nodes:
        values = list(strings(constants(graph.nodes[node_id])))
        is_patch = any(kinds(wire.type) & PATCHED for wire in graph.wires(node_id))
        is_8_bit = any(value.startswith("fp8") for value in values)
        for name in filter(is_model_name, values):
            if name in found:
                continue
            if len(found) >= MOST_FILES:
                raise ValueError(said("Expected a workflow that names at most {most} model files, "
                                      "but this one names more.", most=MOST_FILES))
            weights = [] if _is_outside(name) else [
                one for path in graph.files_named(name) if (one := weights_of(path)) is not None]
            most = max(weights, key=lambda one: one.bytes, default=None)
            found[name] = most and Model(name, most, is_patch, is_8_bit)
    return ([model for model in found.values() if model is not None],
            [name for name, model in found.items() if model is None])


def _is_outside(name: str) -> bool:
    """Whether a name is a full path, or leads out of its folder, on any system."""
    path = PureWindowsPath(name)
    return bool(path.anchor) or ".." in path.parts


def _measured(fits: Json) -> tuple[int, int, list[Said]]:
    low, high = (round((mib or 0) * MIB) for mib in fits["smallest_mib"])
    if fits["at_least"]:
        return low, high, [said("A run of the same nodes, files and sizes needed more than "
                                "{low_mib} here.", low_mib=low / MIB)]
    return low, high, [said(
        "A run of the same nodes, files and sizes took {high_mib} of the GPU here; what it used at "
        "once was {low_mib}.", high_mib=high / MIB, low_mib=low / MIB)]


def _by_headers(models: list[Model], size: Size) -> tuple[int, int, list[Said]]:
    largest = max((model.least_bytes for model in models), default=0)
    everything = sum(model.weights.bytes for model in models)
    low, high = largest + LEAST_CONTEXT_BYTES, everything + CONTEXT_BYTES + size.working_bytes
    weights = said("Model files: {all_mib}, of which {largest_mib} are used at once.",
                   all_mib=everything / MIB, largest_mib=largest / MIB)
    return low, high, [weights, _about(size)]


def _about(size: Size) -> Said:
    values = {**size._asdict(), "working_mib": size.working_bytes / MIB}
    if not size.is_said and size.frames == 1:
        return said("No node says the size of a picture: {working_mib} are assumed for computing.",
                    **values)
    if not (size.is_said and size.frames_said):
        return said("Another node computes the size or the number of frames: for {frames} frames "
                    "of {width} × {height} computing takes up to about {working_mib}.", **values)
    if size.frames > 1:
        return said("For {frames} frames of {width} × {height} computing takes up to about "
                    "{working_mib}.", **values)
    return said("For {pictures} × {width} × {height} computing takes up to about {working_mib}.",
                **values)


def _verdict(
    low: int, high: int, room: int | None, failed: bool, unknown: str | None
) -> tuple[str, Said]:
    """`unknown`: why models are not counted, a key of UNKNOWN; then `high` may be too little."""
    needs = {"low_mib": low / MIB, "high_mib": high / MIB}
    if room is None:
        return "unknown", said("It needs {low_mib} to {high_mib}; no size of a GPU is known here.",
                               **needs)
    have = {"room_mib": room / MIB, **needs}
    if failed and high > room:
        return "fails", said("It did not fit last time: it needs more than {high_mib}, and "
                             "{room_mib} are available.", high_mib=high / MIB, room_mib=room / MIB)
    if low <= room and unknown is not None:
        return "unknown", said(UNKNOWN[unknown], low_mib=low / MIB, room_mib=room / MIB)
    if low > 0.99 * high and high <= room:
        return "fits", said("It fits: it needs {high_mib}, and {room_mib} are available.",
                            high_mib=high / MIB, room_mib=room / MIB)
    if high <= room:
        return "fits", said("It fits: it needs {low_mib} to {high_mib}, and {room_mib} are "
                            "available.", **have)
    if low <= room:
        return "tight", said("It is close: it needs {low_mib} to {high_mib}, and {room_mib} are "
                             "available. Models may have to be unloaded for each other.", **have)
    return "streams", said("It does not fit as a whole: it needs at least {low_mib}, and "
                           "{room_mib} are available. "
                           "{short_mib} of weights have to be streamed each time they are used.",
                           short_mib=(low - room) / MIB, **have)


def _names(what: str, names: list[str]) -> Iterator[Said]:
    if names:
        more = ["…"] if len(names) > NAMES_TOLD else []
        yield said(NAMES[what], names=", ".join([*names[:NAMES_TOLD], *more]))
