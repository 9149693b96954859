"""Run a workflow dry, card by card: as it is, guarded, and with all advice applied.

One server runs them all: before each run everything is taken off the device, and the device gets
the card's size. ComfyUI asks for free memory whenever it decides, so the verdict is that of a fresh
server.
"""

import io
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .client import PromptFailed, failed
from .dry_server import ROOM_MIB, DryServer
from .fit_prompt import ObjectInfo, advised, guarded, loaded_by
from .fit_range import Unmodelled, ceiling_gib
from .fit_steps import LEAST, fewer_steps
from .fit_verdict import Node, Verdict, nodes_of, per_step_mib, verdict
from .progress import ProgressBar
from .run import follow, titles_of

PLAIN, GUARDED, ADVISED = "as it is", "guarded", "with all advice"
ROOM = "with room for everything"
LIMIT_S = 1800.0
# What of ComfyUI's log is about memory; Python's warnings name files, and some lines are ours.
OF_MEMORY = re.compile(r"load|memory|RAM\b|\bMB\b|pinned|cache", re.IGNORECASE)
NOT_COMFYUIS = re.compile(r"Warning:|\[Headroom\]")
LEVEL = re.compile(r"^(\x1b\[\d*m|\[[A-Z]+\]|\s)*")  # before a line, in colour
MIB = 1 << 20
Json = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """What came of one run on one card; memory in MiB. `log`: ComfyUI's own words about memory."""

    card_gib: float
    way: str
    verdict: Verdict
    peak_mib: float
    seconds: float
    nodes: list[Node] = field(default_factory=list)
    applied: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    at_worst: Verdict | None = None  # where what is not modelled would change the verdict

    @property
    def range_mib(self) -> tuple[float, float]:
        """From which to which amount the run needs; of all nodes, the largest of both."""
        ranges = [node.range_mib for node in self.nodes] or [(0.0, 0.0)]
        return max(low for low, _ in ranges), max(high for _, high in ranges)

    def as_json(self) -> Json:
        return {**asdict(self), "verdict": self.verdict.as_json(), "range_mib": self.range_mib}


def _per_step(trial: Trial) -> list[Node]:
    """What each node took, whatever the number of steps."""
    return [replace(node, steps_mib=(per_step_mib(node) or 0.0,)) for node in trial.nodes]


def about_memory(log: str) -> list[str]:
    """The lines in which ComfyUI speaks of memory."""
    return [LEVEL.sub("", line) for line in log.splitlines()
            if OF_MEMORY.search(line) and not NOT_COMFYUIS.search(line)]


class Fit:
    """A workflow on one dry server. `guard`: also guarded, and with the advice of each card.

    `show` False draws no progress bar. `unmodelled`: what a run may need beyond a dry one, where
    ranges are wanted. `limit`: HEADROOM_VRAM_LIMIT of the server that is asked about.
    """

    def __init__(
        self, dry: DryServer, prompt: Json, info: Mapping[str, Any], *, guard: bool,
        context_mib: float, show: bool = True, unmodelled: Unmodelled | None = None,
        limit: str = "",
    ) -> None:
        self.dry, self.prompt, self.guard = dry, prompt, guard
        self.registry = ObjectInfo(info)
        self.context_mib, self.unmodelled, self.limit = context_mib, unmodelled, limit
        self.anyway_mib: dict[str, float] = {}
        self.room_mib: dict[str, float] = {}
        self.bar = ProgressBar({}, None if show else io.StringIO())

    def prompts(self) -> dict[str, Json]:
        """The prompts that are the same on every card."""
        more = {GUARDED: guarded(self.prompt, self.registry)} if self.guard else {}
        return {PLAIN: self.prompt, **more}

    def cards(self, sizes_gib: Sequence[float]) -> list[Trial]:
        """Every way on every card.

        A run that took on a smaller card what it takes with room takes that in between too.
        """
        trials: list[Trial] = []
        room = self.look_at_room()
        for gib in sizes_gib:
            same = [trial for trial in trials if trial.card_gib <= gib
                    and trial.way == PLAIN and _per_step(trial) == _per_step(room)]
            trials += [self.known(gib, same[0])] if same and not self.guard else self.card(gib)
        return trials

    def look_at_room(self) -> Trial:
        """Learn what is copied where nothing can stream, from the run that is returned.

        In each step, and by each node that takes none, its models in it. Two steps show it: on a
        card they differ, where room is short.
        """
        room = self.trial(ROOM_MIB / 1024, ROOM, fewer_steps(self.prompt, LEAST))[0]
        self.anyway_mib = {node.node_id: per_step_mib(node) or 0.0 for node in room.nodes}
        self.room_mib = {node.node_id: node.copied_mib for node in room.nodes
                         if not self.registry.samples(node.class_type)}
        return room

    def card(self, gib: float) -> list[Trial]:
        trials = []
        for way, prompt in self.prompts().items():
            trial, prompt_id = self.trial(gib, way, prompt)
            if way == PLAIN:
                advice = self._advice(prompt_id)
            trials.append(self.looked_at_again(trial, prompt))
        if self.guard and advice:
            changed, applied = advised(self.prompt, advice)
            if applied:
                trials.append(self.trial(gib, ADVISED, changed, tuple(applied))[0])
        return trials

    def known(self, gib: float, smaller: Trial) -> Trial:
        """The run as it is, with what it took on a smaller card."""
        self.bar.pass_over(titles_of(self.prompt))
        return self.looked_at_again(
            replace(smaller, card_gib=gib, seconds=0.0, at_worst=None), self.prompt)

    def looked_at_again(self, trial: Trial, prompt: Json) -> Trial:
        """Add to a resident run near the card's size its verdict on a smaller card. The difference
        is what samplers may need beyond the dry run: weights that only just fit would then stream.
        """
        more = max((node.unmodelled_mib for node in trial.nodes
                    if self.registry.samples(node.class_type)), default=0.0)
        card = ceiling_gib(self.limit, trial.card_gib)
        if trial.verdict.word != "resident" or trial.peak_mib + more <= card * 1024:
            return trial
        worst = self.trial(card - more / 1024, trial.way, prompt)[0].verdict
        return trial if worst.word == "resident" else replace(trial, at_worst=worst)

    def trial(
        self, gib: float, way: str, prompt: Json, applied: tuple[str, ...] = ()
    ) -> tuple[Trial, str]:
        """One run on an empty card of that size, and its id."""
        if self.limit:
            self.dry.limit("off" if way == ROOM else self.limit)
        self.dry.empty(gib * 1024)
        return self.run(gib, way, prompt, applied)

    def run(
        self, gib: float, way: str, prompt: Json, applied: tuple[str, ...] = ()
    ) -> tuple[Trial, str]:
        """The same on the card as it is."""
        bar = self.bar
        bar.go_on_with(titles_of(prompt), f"{ROOM}:" if way == ROOM else f"{gib:.4g} GiB, {way}:")
        started, logged = time.monotonic(), len(self.dry.log_text())
        entry = follow(self.dry.client, prompt, LIMIT_S, bar)
        bar.leave()
        prompt_id = entry["prompt_id"]
        record = self.dry.client.get_json(f"/headroom/runs/{prompt_id}")
        taken = self.dry.client.get_json(f"/dry/runs/{prompt_id}")
        nodes = nodes_of(record, taken, self.context_mib, self.unmodelled)
        samplers = [node.node_id for node in nodes if self.registry.samples(node.class_type)]
        error = PromptFailed(entry) if failed(entry) else None
        return Trial(
            gib, way, verdict(nodes, samplers, error, self.anyway_mib,
                              loaded_by(prompt, error.node_id) if error else "",
                              self.unmodelled.layer_mib if self.unmodelled else 0.0),
            round(max((node.peak_mib for node in nodes), default=0.0), 1),
            round(time.monotonic() - started, 1), nodes, applied,
            tuple(about_memory(self.dry.log_text()[logged:])),
        ), prompt_id

    def _advice(self, prompt_id: str) -> list[Json]:
        status, answer = self.dry.client.get(f"/headroom/runs/{prompt_id}/advice")
        return answer if status == 200 and isinstance(answer, list) else []
