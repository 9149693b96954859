"""A run and its prompt, as the findings look at them: who held how much while whom ran."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ..base.node_types import Registry
from ..host.types import ModelFacts
from ..record.memory import Peak, Reading
from ..record.nodes import NodeRecord
from ..record.run import Run
from .finding import Saves
from .wires import TYPE_OF_KIND, Prompt, Wires


class Bounds(NamedTuple):
    """Bytes that were there for sure, and at most."""

    low: int
    high: int


@dataclass(frozen=True)
class Step:
    """One node that ran: its peak on the fullest device, and the models that were there."""

    node_id: str
    prompt_node: str
    class_type: str
    title: str
    status: str
    before_bytes: int
    peak: Peak
    held: Mapping[str, Bounds]
    grew: frozenset[str]


@dataclass(frozen=True)
class Case:
    """What the findings are made of. Pure data but for the registry."""

    prompt: Prompt
    registry: Registry
    steps: tuple[Step, ...]
    models: Mapping[str, ModelFacts]
    device: str
    total_bytes: int | None
    failure: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def wires(self) -> Wires:
        return Wires(self.prompt, self.registry)

    @cached_property
    def top(self) -> Step | None:
        """The node with the largest peak."""
        return max(self.steps, key=lambda step: step.peak.at_least, default=None)

    @property
    def peak_bytes(self) -> int:
        return self.top.peak.at_least if self.top is not None else 0

    @cached_property
    def owners(self) -> dict[str, frozenset[str]]:
        """By model: the loaders that it may come from; none for a kind that no wire is known of."""
        return {model_id: self._owners(facts) for model_id, facts in self.models.items()}

    def _owners(self, facts: ModelFacts) -> frozenset[str]:
        kind = TYPE_OF_KIND.get(facts.kind)
        used = {node: self.wires.uses(node) for node in self.prompt}
        loaders = frozenset(loader for uses in used.values() for a, loader in uses if a == kind)
        named = self.wires.naming(facts.file) & loaders if facts.file else frozenset()
        if named or len(loaders) < 2:
            return named or loaders
        for step in self.steps:
            if facts.id in step.grew and step.prompt_node in used:
                return frozenset(x for a, x in used[step.prompt_node] if a == kind) or loaders
        return loaders

    def uses(self, step: Step, model_id: str) -> bool:
        """Whether a node may compute with a model; yes where nobody can tell."""
        owners = self.owners[model_id]
        if not owners or step.prompt_node not in self.prompt:
            return True
        kind = TYPE_OF_KIND[self.models[model_id].kind]
        return any((kind, owner) in self.wires.uses(step.prompt_node) for owner in owners)

    def idle(self, step: Step) -> dict[str, Bounds]:
        """Return the models that were held while a node ran which does not use them."""
        return {model_id: held for model_id, held in step.held.items()
                if not self.uses(step, model_id)}

    def saved(self, gone: Mapping[str, Bounds]) -> Saves:
        """Return what the peak loses when nodes (by id) have so much less on the device."""
        nothing = Bounds(0, 0)
        lows, highs = [0], [0]
        for step in self.steps:
            less = gone.get(step.node_id, nothing)
            most = step.peak.at_least if step.peak.at_most is None else step.peak.at_most
            lows.append(step.peak.at_least - less.high)
            highs.append(most - less.low)
        peak = self.peak_bytes
        return Saves(max(peak - max(highs), 0), max(peak - max(lows), 0))


def case_of(run: Run, prompt: Prompt, registry: Registry, **more: Any) -> Case | None:
    """Return the case of a run that has been on a device; None for one on the CPU."""
    if not run.devices:
        return None
    main = run.fullest
    device = run.devices[main]
    records = [r for r in run.nodes.records.values() if r.before is not None]
    steps = [_step(record, main, device, prompt) for record in records]
    models = {held.model.id: held.model for record in records
              for reading in (record.before, record.after) if reading is not None
              for held in reading.models}
    return Case(prompt, registry, tuple(step for step in steps if step is not None), models,
                device, run.totals[main], **more)


def _step(record: NodeRecord, main: int, device: str, prompt: Prompt) -> Step | None:
    peak = record.peaks[main] if main < len(record.peaks) else None
    before, after = _held(record.before, device), _held(record.after, device)
    if peak is None or record.before is None:
        return None
    info = record.info
    held = {model_id: _bounds(before.get(model_id, 0), after.get(model_id, 0))
            for model_id in {**before, **after}}
    return Step(
        info.node_id,
        info.node_id if info.node_id in prompt else info.display_node_id,
        info.class_type, info.title, record.status,
        record.before.devices[main].used_bytes or 0, peak, held,
        frozenset(m for m, size in after.items() if size > before.get(m, 0)),
    )


def _bounds(before: int, after: int) -> Bounds:
    return Bounds(min(before, after), max(before, after))


def _held(reading: Reading | None, device: str) -> dict[str, int]:
    if reading is None:
        return {}
    return {held.model.id: held.bytes for held in reading.models if held.device == device}
