"""Why a node took much longer than the same node in an earlier run, as far as the records show.

The same node has the same id and class, and the same values in it and in all nodes before it,
except seeds and texts. So it works on values of the same shapes.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..base.device import MIB
from ..base.graph import Graph
from ..base.prompt_node import is_link
from ..base.said import Said, joined, said, said_json
from ..host.types import ModelFacts, Previews
from ..measure.journal import Action, OomAttempt
from ..record.memory import Reading
from ..record.recorder import Recorder
from ..record.run import Drawn, Run

TIMES = 3.0
LEAST_SECONDS = 1.0  # below this, other work of the machine matters more
LEAST_BYTES = 256 * MIB
OF_NO_SHAPE = frozenset({"seed", "noise_seed", "text", "prompt", "filename_prefix"})
NOTHING_DIFFERED = said(
    "models, other programs, swap, the disk, previews and OOM Guard were the same, so the reason "
    "is outside of the record")
Value = TypeVar("Value")
Key = tuple[str, float]  # of a run: its prompt, and when it began


class Held(NamedTuple):
    """A model before and after a node, in bytes on its device, and its full size."""

    before: int
    after: int
    total: int


class NodeCost(NamedTuple):
    """What a node needed in one run, and the conditions."""

    prompt_id: str
    node_id: str
    title: str
    seconds: float
    models: Mapping[str, Held]
    other_bytes: int  # on the card, neither ComfyUI's models nor torch's
    again: int  # calls that OOM Guard repeated
    ways: tuple[str, ...]  # remembered plans with which calls began
    spilled_bytes: int = 0
    swapped_bytes: int = 0
    read_bytes: int = 0  # from disk
    read_seconds: float = 0.0
    previews: Previews | None = None  # if the node has drawn some
    drawn: Drawn = (0, 0)
    peak_bytes: int = 0  # of VRAM


def same_nodes(graph: Graph) -> dict[str, str]:
    """Return a key for each node that the same node has in other prompts too, and no other."""
    keys: dict[str, str] = {}
    for node_id in graph.above(*graph.nodes):
        node = graph.nodes[node_id]
        values = {name: [keys.get(str(value[0])), value[1]] if is_link(value) else _plain(value)
                  for name, value in node["inputs"].items() if name not in OF_NO_SHAPE}
        whole = json.dumps([node_id, node["class_type"], values], sort_keys=True, default=str)
        keys[node_id] = str(hash(whole))
    return keys


def _plain(value: Any) -> Any:
    """Numbers compare as floats: ComfyUI turns a whole number into one if a node wants that."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def took(run: Run, keys: Mapping[str, str]) -> dict[str, NodeCost]:
    """Return what each finished node of a run needed, by its key."""
    return {
        keys[node_id]: NodeCost(
            run.prompt_id, node_id, record.info.title, record.seconds,
            _models(record.before, record.after), _others(record.before),
            sum(isinstance(entry, OomAttempt) and entry.node_id == node_id
                for _, entry in run.entries),
            tuple(entry.text for _, entry in run.entries if isinstance(entry, Action)
                  and entry.action == "guard" and entry.node_id == node_id),
            record.spilled_bytes, record.swapped_bytes, record.read_bytes, record.read_seconds,
            run.previews if node_id in run.drawn else None, run.drawn.get(node_id, (0, 0)),
            max((peak.at_least for peak in record.peaks if peak), default=0),
        )
        for node_id, record in run.nodes.records.items()
        if node_id in keys and record.status == "done"
    }


def _models(before: Reading | None, after: Reading | None) -> dict[str, Held]:
    found: dict[str, Held] = {}
    for held in before.models if before is not None else ():
        found[_name(held.model)] = Held(held.bytes, 0, held.model.total_bytes)
    for held in after.models if after is not None else ():
        was = found.get(_name(held.model), Held(0, 0, 0)).before
        found[_name(held.model)] = Held(was, held.bytes, held.model.total_bytes)
    return found


def _name(model: ModelFacts) -> str:
    """Return a model's name in every run: two of one class are distinguished by their files."""
    return f"{model.class_name} ({model.file})" if model.file else model.class_name


def _others(reading: Reading | None) -> int:
    if reading is None:
        return 0
    paged = sum(held.bytes for held in reading.models if held.model.is_dynamic)
    return max(sum(use.other_bytes for use in reading.devices) - paged, 0)


def slower(
    now: Mapping[str, NodeCost], earlier: Sequence[Mapping[str, NodeCost]]
) -> list[dict[str, Any]]:
    """Return which nodes took much longer than in the fastest of the earlier runs, and why."""
    found = []
    for key, one in now.items():
        before = min((run[key] for run in earlier if key in run),
                     key=lambda other: other.seconds, default=one)
        if one.seconds < LEAST_SECONDS or one.seconds <= TIMES * before.seconds:
            continue
        why = list(_differences(before, one)) or [NOTHING_DIFFERED]
        text = _sentence(before, one, joined("; ", why))
        found.append({"node_id": one.node_id, "seconds": round(one.seconds, 3),
                      "before_seconds": round(before.seconds, 3), "before_run": before.prompt_id,
                      "text": text, "said": said_json(text)})
    return found


def _sentence(before: NodeCost, now: NodeCost, why: str) -> Said:
    return said(
        "{node} took {seconds} s, and {before} s in an earlier run: {why}",
        node=f"{now.title} #{now.node_id}", seconds=f"{now.seconds:,.1f}",
        before=f"{before.seconds:,.1f}", why=why)


def _differences(before: NodeCost, now: NodeCost) -> Iterator[Said]:
    for name, held in now.models.items():
        was = before.models.get(name, Held(0, 0, held.total))
        loaded = held.after - held.before
        if loaded > LEAST_BYTES and was.before - held.before > LEAST_BYTES:
            yield said("{loaded_mib} of {model} were loaded again, but were there in the earlier "
                       "run",
                       model=name, loaded_mib=loaded / MIB)
        streamed, streamed_then = held.total - held.after, was.total - was.after
        if held.after and streamed - streamed_then > LEAST_BYTES:
            yield said("{streamed_mib} of {model} did not fit and were streamed",
                       model=name, streamed_mib=streamed / MIB)
    if now.other_bytes - before.other_bytes > LEAST_BYTES:
        yield said("other programs held {held_mib} of the GPU, and {before_mib} in the earlier run",
                   held_mib=now.other_bytes / MIB, before_mib=before.other_bytes / MIB)
    yield from _strains(before, now)
    if now.again > before.again:
        yield said("calls that OOM Guard repeated: {count}, and {before} in the earlier run",
                   count=now.again, before=before.again)
    for way in now.ways:
        if way not in before.ways:
            yield said("OOM Guard: {way}", way=way)


def _strains(before: NodeCost, now: NodeCost) -> Iterator[Said]:
    if now.spilled_bytes - before.spilled_bytes > LEAST_BYTES:
        yield said("the driver had moved {spilled_mib} of VRAM into RAM, and {before_mib} in the "
                   "earlier run",
                   spilled_mib=now.spilled_bytes / MIB, before_mib=before.spilled_bytes / MIB)
    if now.swapped_bytes - before.swapped_bytes > LEAST_BYTES:
        yield said("{swapped_mib} of swap were in use, and {before_mib} in the earlier run",
                   swapped_mib=now.swapped_bytes / MIB, before_mib=before.swapped_bytes / MIB)
    longer = now.read_seconds - before.read_seconds
    if now.read_bytes > LEAST_BYTES and (
            now.read_bytes - before.read_bytes > LEAST_BYTES or longer > LEAST_SECONDS):
        yield said("{read_mib} were read from disk in {seconds} s ({speed_mib} a second), and "
                   "{before_mib} in {before} s in the earlier run",
                   read_mib=now.read_bytes / MIB, before_mib=before.read_bytes / MIB,
                   seconds=f"{now.read_seconds:,.1f}", before=f"{before.read_seconds:,.1f}",
                   speed_mib=now.read_bytes / MIB / (now.read_seconds or now.seconds))
    drawn, drawn_then = now.previews, before.previews
    if drawn is not None and drawn.by_model and not (drawn_then and drawn_then.by_model):
        method: str = drawn.method
        if drawn.model_bytes and drawn.pixel_bytes:
            width, height = now.drawn
            method = said("{method}, a file of {model_mib}, and about {drawing_mib} each time that "
                          "it draws {width}x{height} pixels", method=method,
                          model_mib=drawn.model_bytes / MIB, width=width, height=height,
                          drawing_mib=drawn.pixel_bytes * width * height / MIB)
        elif drawn.model_bytes:
            method = said("{method}, a file of {model_mib}", method=method,
                          model_mib=drawn.model_bytes / MIB)
        yield said("previews were drawn by a model ({method}), but not in the earlier run; the "
                   "peak of VRAM was {peak_mib}, and {before_mib} in the earlier run",
                   method=method,
                   peak_mib=now.peak_bytes / MIB, before_mib=before.peak_bytes / MIB)


class Slower:
    """Compares a run with those before it, once for each run that is over.

    `graph_of(id)` returns a prompt while ComfyUI still knows it.
    """

    def __init__(self, recorder: Recorder, graph_of: Callable[[str], Graph], most: int) -> None:
        self._recorder = recorder
        self._graph_of = graph_of
        self._most = most
        self._took: OrderedDict[Key, dict[str, NodeCost]] = OrderedDict()
        self._found: OrderedDict[Key, list[dict[str, Any]]] = OrderedDict()

    def of(self, prompt_id: str) -> list[dict[str, Any]]:
        """Return the result of `slower` for a run that is over; empty for an unknown one."""
        key = self._recorder.look(prompt_id, _key)
        if key is None or key in self._found:
            return self._found.get(key, []) if key is not None else []
        ids = self._recorder.newest_ids()
        now, *earlier = [self._took_in(one) for one in ids[ids.index(prompt_id):]] or [{}]
        return _kept(self._found, key, slower(now, earlier), self._most)

    def _took_in(self, prompt_id: str) -> dict[str, NodeCost]:
        key = self._recorder.look(prompt_id, _key)
        if key is None or key in self._took:
            return self._took.get(key, {}) if key is not None else {}
        keys = same_nodes(self._graph_of(prompt_id))
        found = self._recorder.look(prompt_id, lambda run: took(run, keys))
        return _kept(self._took, key, found or {}, self._most)


def _key(run: Run) -> Key | None:
    return None if run.status == "running" else (run.prompt_id, run.started_at)


def _kept(store: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> Value:
    store[key] = value
    while len(store) > most:
        store.popitem(last=False)
    return value
