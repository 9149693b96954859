"""Why a node took much longer than the same node in an earlier run, as far as the records show.

The same node has the same id and class, and the same values in it and in all nodes before it,
except seeds and texts. So it works on values of the same shapes.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..base.device import MIB
from ..base.graph import Graph
from ..base.prompt_node import is_link
from ..base.said import Said, joined, said, said_json
from ..host.types import ModelFacts, Previews
from ..measure.journal import Action, OomAttempt
from ..record.newest import Newest
from ..record.nodes import NodeRecord
from ..record.recorder import Recorder
from ..record.run import Run

TIMES = 3.0
LEAST_SECONDS = 1.0  # below this, other work of the machine matters more
LEAST_BYTES = 256 * MIB
OF_NO_SHAPE = frozenset({"seed", "noise_seed", "text", "prompt", "filename_prefix"})
NOTHING_DIFFERED = said(
    "models, other programs, swap, the disk, previews and OOM Guard were the same, so the reason "
    "is outside of the record")
Key = tuple[str, float]  # of a run: its prompt, and when it began


class Held(NamedTuple):
    """A model before and after a node, in bytes on its device, and its full size."""

    before: int
    after: int
    total: int


class NodeRun(NamedTuple):
    """A node in one run."""

    run: Run
    record: NodeRecord

    @property
    def node_id(self) -> str:
        return self.record.info.node_id

    @property
    def models(self) -> dict[str, Held]:
        """By name; two of one class are distinguished by their files."""
        before, after = (
            {_name(held.model): held for held in reading.models} if reading is not None else {}
            for reading in (self.record.before, self.record.after))
        return {name: Held(before[name].bytes if name in before else 0,
                           after[name].bytes if name in after else 0, one.model.total_bytes)
                for name, one in {**before, **after}.items()}

    @property
    def other_bytes(self) -> int:
        """What was on the card before it, neither ComfyUI's models nor torch's."""
        before = self.record.before
        if before is None:
            return 0
        paged = sum(held.bytes for held in before.models if held.model.is_dynamic)
        return max(sum(use.other_bytes for use in before.devices) - paged, 0)

    @property
    def repeated(self) -> int:
        """How many calls OOM Guard repeated."""
        return sum(isinstance(entry, OomAttempt) and entry.node_id == self.node_id
                   for _, entry in self.run.entries)

    @property
    def ways(self) -> list[str]:
        """The remembered plans with which guarded calls began."""
        return [entry.text for _, entry in self.run.entries if isinstance(entry, Action)
                and entry.action == "guard" and entry.node_id == self.node_id]

    @property
    def previews(self) -> Previews | None:
        """How its previews were drawn, if a model drew them."""
        drawn = self.run.previews if self.node_id in self.run.drawn else None
        return drawn if drawn is not None and drawn.by_model else None

    @property
    def peak_mib(self) -> float:
        return max((peak.at_least for peak in self.record.peaks if peak), default=0) / MIB


def _name(model: ModelFacts) -> str:
    return f"{model.class_name} ({model.file})" if model.file else model.class_name


def same_nodes(graph: Graph) -> dict[str, str]:
    """Return a key for each node; only the same node has this key in another prompt."""
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


def nodes_of(run: Run, keys: Mapping[str, str]) -> dict[str, NodeRun]:
    """Return each finished node of a run by its key."""
    return {keys[node_id]: NodeRun(run, record)
            for node_id, record in run.nodes.records.items()
            if node_id in keys and record.status == "done"}


def slower(
    now: Mapping[str, NodeRun], earlier: Sequence[Mapping[str, NodeRun]]
) -> list[dict[str, Any]]:
    """Return which nodes took much longer than in the fastest of the earlier runs, and why."""
    found = []
    for key, one in now.items():
        before = min((run[key] for run in earlier if key in run),
                     key=lambda other: other.record.seconds, default=one)
        seconds, then = one.record.seconds, before.record.seconds
        if seconds < LEAST_SECONDS or seconds <= TIMES * then:
            continue
        differences = [*_of_memory(before, one), *_strains(before.record, one.record),
                       *_of_guard(before, one), *_of_previews(before, one)]
        text = said(
            "{node} took {seconds} s, and {before} s in an earlier run: {why}",
            node=f"{one.record.info.title} #{one.node_id}", seconds=f"{seconds:,.1f}",
            before=f"{then:,.1f}", why=joined("; ", differences or [NOTHING_DIFFERED]))
        found.append({"node_id": one.node_id, "seconds": round(seconds, 3),
                      "before_seconds": round(then, 3), "before_run": before.run.prompt_id,
                      "text": text, "said": said_json(text)})
    return found


def _of_memory(before: NodeRun, now: NodeRun) -> Iterator[Said]:
    models_then = before.models
    for name, held in now.models.items():
        was = models_then.get(name, Held(0, 0, held.total))
        loaded = held.after - held.before
        if loaded > LEAST_BYTES and was.before - held.before > LEAST_BYTES:
            yield said("{loaded_mib} of {model} were loaded again, but were there in the earlier "
                       "run", model=name, loaded_mib=loaded / MIB)
        streamed, streamed_then = held.total - held.after, was.total - was.after
        if held.after and streamed - streamed_then > LEAST_BYTES:
            yield said("{streamed_mib} of {model} did not fit and were streamed",
                       model=name, streamed_mib=streamed / MIB)
    if now.other_bytes - before.other_bytes > LEAST_BYTES:
        yield said("other programs held {held_mib} of the GPU, and {before_mib} in the earlier run",
                   held_mib=now.other_bytes / MIB, before_mib=before.other_bytes / MIB)


def _strains(before: NodeRecord, now: NodeRecord) -> Iterator[Said]:
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


def _of_guard(before: NodeRun, now: NodeRun) -> Iterator[Said]:
    if now.repeated > before.repeated:
        yield said("calls that OOM Guard repeated: {count}, and {before} in the earlier run",
                   count=now.repeated, before=before.repeated)
    for way in now.ways:
        if way not in before.ways:
            yield said("OOM Guard: {way}", way=way)


def _of_previews(before: NodeRun, now: NodeRun) -> Iterator[Said]:
    drawn = now.previews
    if drawn is None or before.previews is not None:
        return
    method: str = drawn.method
    if drawn.model_bytes and drawn.pixel_bytes:
        width, height = now.run.drawn[now.node_id]
        method = said("{method}, a file of {model_mib}, and about {drawing_mib} each time that "
                      "it draws {width}x{height} pixels", method=method,
                      model_mib=drawn.model_bytes / MIB, width=width, height=height,
                      drawing_mib=drawn.pixel_bytes * width * height / MIB)
    elif drawn.model_bytes:
        method = said("{method}, a file of {model_mib}", method=method,
                      model_mib=drawn.model_bytes / MIB)
    yield said("previews were drawn by a model ({method}), but not in the earlier run; the "
               "peak of VRAM was {peak_mib}, and {before_mib} in the earlier run",
               method=method, peak_mib=now.peak_mib, before_mib=before.peak_mib)


@dataclass(eq=False)
class Slower:
    """Compares a run with those before it, once for each run that is over."""

    recorder: Recorder
    graph_of: Callable[[str], Graph]  # a prompt, while ComfyUI still knows it

    def __post_init__(self) -> None:
        self._nodes: Newest[Key, dict[str, NodeRun]] = Newest()
        self._found: Newest[Key, list[dict[str, Any]]] = Newest()

    def of(self, prompt_id: str) -> list[dict[str, Any]]:
        """Return the result of `slower` for a run that is over; empty for an unknown one."""
        key = self.recorder.look(prompt_id, _key)
        if key is None:
            return []
        found = self._found.get(key)
        if found is None:
            ids = self.recorder.newest_ids()
            now, *earlier = [self._nodes_of(one) for one in ids[ids.index(prompt_id):]]
            found = self._found[key] = slower(now, earlier)
        return found

    def _nodes_of(self, prompt_id: str) -> dict[str, NodeRun]:
        key = self.recorder.look(prompt_id, _key)
        if key is None:
            return {}
        found = self._nodes.get(key)
        if found is None:
            keys = same_nodes(self.graph_of(prompt_id))
            found = self.recorder.look(prompt_id, lambda run: nodes_of(run, keys)) or {}
            self._nodes[key] = found
        return found


def _key(run: Run) -> Key | None:
    return None if run.status == "running" else (run.prompt_id, run.started_at)
