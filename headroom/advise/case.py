"""A run and its prompt, prepared for the findings: what was on the device while each node ran."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..base.graph import TYPE_OF_KIND, Graph, Prompt
from ..base.node_types import Registry
from ..base.prompt_node import constants, strings
from ..host.types import ModelFacts
from ..record.memory import Peak
from .finding import NOTHING, Bounds, Gone

TIGHT = 0.9  # of the device: if more is in use, others take pages as soon as they are free


CAST = "cast:"  # prefix of the id of a model that only becomes smaller


@dataclass(frozen=True, eq=False)
class Step:
    """One node that ran: its peak on the fullest device, and the models that were there.

    `spare_bytes`: what torch's allocator had reserved at its end without a tensor in it.
    """

    node_id: str
    prompt_node: str
    class_type: str
    title: str
    status: str
    peak: Peak
    held: Mapping[str, Bounds]
    grew: frozenset[str]
    spare_bytes: int = 0

    @property
    def name(self) -> str:
        """Its name in sentences: several nodes may have the same title."""
        return f"{self.title} #{self.node_id}"

    @property
    def at_most(self) -> int:
        most = self.peak.at_most
        return self.peak.at_least if most is None else most

    @property
    def held_bytes(self) -> int:
        return sum(held.high for held in self.held.values())

    def had_left(self, model_id: str) -> bool:
        """Whether a model left before the peak: it does not fit beside the models that came."""
        held, came = self.held[model_id], sum(self.held[other].high for other in self.grew)
        return (held.low < held.high and model_id not in self.grew
                and held.high + came > self.at_most)


@dataclass(frozen=True)
class Surroundings:
    """What else is known, each if possible.

    `failure`: how the run ended out of memory (see rescue). `others`: MiB of other processes on
    the card by "name (pid)". `allocator`: torch's settings. `has_flag(flag)`: whether ComfyUI's
    command line has it.
    """

    failure: Mapping[str, Any] | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    allocator: Mapping[str, Any] = field(default_factory=dict)
    can_bf16: bool = False
    has_flag: Callable[[str], bool] = field(default=lambda _: False)


@dataclass(frozen=True)
class Case:
    """The data from which findings are made. Pure data, except for the registry.

    `is_guarded`: it ran with guards that its user did not add, so no guard is advised.
    """

    prompt: Prompt
    registry: Registry
    steps: tuple[Step, ...]
    models: Mapping[str, ModelFacts]
    device: str
    total_bytes: int | None
    around: Surroundings = Surroundings()
    is_guarded: bool = False

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.prompt, self.registry)

    @cached_property
    def top(self) -> Step | None:
        """The node with the largest peak."""
        return max(self.steps, key=lambda step: step.peak.at_least, default=None)

    @property
    def peak_bytes(self) -> int:
        return self.top.peak.at_least if self.top is not None else 0

    @cached_property
    def owners(self) -> dict[str, frozenset[str]]:
        """By model: the loaders that it may come from; none for a kind without a known wire."""
        return {model_id: frozenset(twin for owner in self._loaders(facts)
                                    for twin in self._twins(owner))
                for model_id, facts in self.models.items()}

    def _loaders(self, facts: ModelFacts) -> frozenset[str]:
        kind = TYPE_OF_KIND.get(facts.kind)
        loaders = frozenset(loader for node in self.prompt
                            for a, loader in self.graph.uses(node) if a == kind)
        named = self._naming(facts.file) & loaders if facts.file else frozenset()
        if named or len(loaders) < 2:
            return named or loaders
        for step in self.steps:
            if facts.id in step.grew and step.prompt_node in self.prompt:
                used = frozenset(x for a, x in self.graph.uses(step.prompt_node) if a == kind)
                return used or loaders & {step.prompt_node} or loaders
        return loaders

    def _twins(self, node_id: str) -> list[str]:
        """Return a node and all nodes with the same inputs: ComfyUI runs one of them for all."""
        class_type, inputs = self.prompt[node_id]["class_type"], self.prompt[node_id]["inputs"]
        return [other for other, node in self.prompt.items()
                if node["class_type"] == class_type and node["inputs"] == inputs]

    def _naming(self, file: str) -> frozenset[str]:
        """Return the nodes with one of these file names ("a + b") among their values."""
        wanted = set(file.split(" + "))
        return frozenset(
            node_id for node_id, node in self.prompt.items()
            if any(text.replace("\\", "/").rpartition("/")[2] in wanted
                   for text in strings(constants(node)))
        )

    def uses(self, step: Step, model_id: str) -> bool:
        """Whether a node may compute with a model; True if that is not known."""
        owners = self.owners[model_id]
        if not owners or step.prompt_node not in self.prompt:
            return True
        kind, used = TYPE_OF_KIND[self.models[model_id].kind], self.graph.uses(step.prompt_node)
        return any((kind, owner) in used for owner in owners)

    def idle(self, step: Step) -> dict[str, Bounds]:
        """Return the models that were on the device while a node ran that does not use them.

        With dynamic VRAM, pages of idle models are freed by themselves: on a full device it is not
        certain that this frees anything, because others take the room.
        """
        is_tight = self.total_bytes is not None and step.at_most > TIGHT * self.total_bytes
        return {
            model_id: Bounds(0 if is_tight and self.models[model_id].is_dynamic else held.low,
                             held.low if step.had_left(model_id) else held.high)
            for model_id, held in step.held.items()
            if not self.models[model_id].stays and not self.uses(step, model_id)
        }

    def next_use(self, model_id: str, after: int) -> int:
        """Return the number of the next step that uses a model; if none does, of how many there
        are."""
        return next((index for index in range(after + 1, len(self.steps))
                     if self.uses(self.steps[index], model_id)), len(self.steps))

    def last_run(self, node_id: str) -> int:
        """Return the last step in which a node of the prompt ran or began; -1: it did not run."""
        return max((number for number, step in enumerate(self.steps)
                    if step.prompt_node == node_id), default=-1)

    def after(self, gone: Gone) -> Bounds:
        """Return the peak to expect if nodes have so much less on the device."""
        less = less_by_node(gone)
        low = [step.peak.at_least - less.get(step.node_id, NOTHING).high for step in self.steps]
        high = [step.at_most - less.get(step.node_id, NOTHING).low for step in self.steps]
        return Bounds(max([0, *low]), max([0, *high]))

    def saved(self, gone: Gone) -> Bounds:
        """Return by how much that lowers the peak."""
        after, peak = self.after(gone), self.peak_bytes
        return Bounds(max(peak - after.high, 0), max(peak - after.low, 0))


def together(*parts: Gone) -> dict[tuple[str, str], Bounds]:
    """Return what all of these take off the device; a model that several take counts once."""
    found: dict[tuple[str, str], Bounds] = {}
    for part in parts:
        for place, less in part.items():
            so_far = found.get(place, NOTHING)
            found[place] = Bounds(max(so_far.low, less.low), max(so_far.high, less.high))
    return found


def less_by_node(gone: Gone) -> dict[str, Bounds]:
    """Return how much less each node has; a model that is gone cannot become smaller too."""
    found: dict[str, Bounds] = {}
    for (node_id, what), less in gone.items():
        if what.startswith(CAST) and (node_id, what.removeprefix(CAST)) in gone:
            continue
        so_far = found.get(node_id, NOTHING)
        found[node_id] = Bounds(so_far.low + less.low, so_far.high + less.high)
    return found
