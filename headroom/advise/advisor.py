"""Advice on the runs of this server: their records, and their prompts from ComfyUI's history."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..base.device import MIB, in_mib
from ..base.graph import Graph, Prompt
from ..base.node_types import Registry
from ..base.ram import ram_room_bytes
from ..base.said import NotKnown, said
from ..host.adapter import cache_flags, has_flag, pinned_bytes
from ..measure.snapshot import rss_bytes, snapshot
from ..record.newest import NO_RECORD, Newest
from ..record.recorder import Recorder
from ..record.run import Run
from .about_ram import Server, about_ram
from .about_run import about_error, about_strain
from .advise import advise, advise_into
from .applied import applied
from .case import Case, Surroundings
from .estimate import estimate
from .finding import Bounds, Finding
from .fits import fits
from .from_run import case_of, surroundings_of
from .slower import Slower, same_nodes
from .words import lines_of

log = logging.getLogger("headroom")
# How far a prediction may be off. For tensors of 1 to 10 MiB torch's allocator asks the driver for
# a whole piece; which of these pieces become empty without a model cannot be foreseen.
PIECE = 20 * MIB
PREDICTED = ("encode_to_cpu", "offload_after", "purge_between", "cast_bf16")


@dataclass(eq=False)
class Advisor:
    """Called for HTTP requests and by Memory Report."""

    recorder: Recorder
    # A prompt's graph while ComfyUI still knows it: records do not store it, it can have megabytes.
    prompt_of: Callable[[str], Prompt | None]
    registry: Registry
    facts: Callable[[str], dict[str, Any]] = lambda _: {}  # how a prompt ran out of memory
    workflow_id_of: Callable[[str], str | None] = lambda _: None  # of the page that queued it

    def __post_init__(self) -> None:
        self._fits: Newest[tuple[str, float], Any] = Newest()
        self._slower = Slower(self.recorder, lambda prompt_id: Graph(self._prompt(prompt_id)))

    def advice(self, prompt_id: str, into_gib: float | None = None) -> list[dict[str, Any]]:
        """Return the findings on a run as data, best first; NotKnown without a record of it.

        With `into_gib`: those that bring its peak down to that size, in the order to apply them,
        each with the peak to expect after it (`expected_mib`).
        """
        failure = self.facts(prompt_id).get("failure")
        case = self._case(prompt_id, surroundings_of(failure))
        if into_gib is not None:
            return [] if case is None else [
                {**self._json(case, finding), "expected_mib": [
                    in_mib(max(after.low - PIECE, 0)), in_mib(after.high + PIECE)]}
                for finding, after in advise_into(case, round(into_gib * 1024 * MIB), PIECE)]
        limit = rss_bytes() + ram_room_bytes()
        server = Server(limit, has_flag, pinned_bytes(), *cache_flags())
        graph = Graph(self._prompt(prompt_id), self.registry)
        about = self.recorder.look(
            prompt_id, lambda run: about_error(run) + about_ram(
                run, server, graph, case) + about_strain(run, limit, has_flag)) or []
        if case is None:
            return about
        found = self._measured(prompt_id, case, advise(case))
        return about + [self._json(case, finding) for finding in found]

    def more_of(self, prompt_id: str) -> dict[str, Any]:
        """Return what else a record shows.

        `fits`: the smallest GPU that the run would have fitted; None if it neither finished nor ran
        out of memory. `slower`: nodes that took much longer than in an earlier run. `workflow_id`:
        which workflow of a page it was queued from, if the page told.
        """
        return {**self.facts(prompt_id), "fits": self._fits_of(prompt_id),
                "slower": self._slower.of(prompt_id), "workflow_id": self.workflow_id_of(prompt_id)}

    def estimate(self, prompt: Prompt) -> dict[str, Any]:
        """Return a first estimate of whether a prompt fits this GPU (see estimate.py)."""
        graph = Graph(prompt, self.registry)
        device = next(iter(snapshot().devices), None)
        try:
            return estimate(graph, self._run_like(graph), device)
        except RecursionError as error:
            raise ValueError(said("Expected a workflow, but its values are nested too deeply.")
                             ) from error

    def _run_like(self, graph: Graph) -> tuple[str, dict[str, Any]] | None:
        """Return the newest run that shows what the same nodes, files and sizes needed."""
        wanted = set(same_nodes(graph).values())
        for prompt_id in self.recorder.newest_ids():
            prompt = Graph(self._prompt(prompt_id))
            if prompt.nodes and set(same_nodes(prompt).values()) == wanted:
                if (found := self._fits_of(prompt_id)) is not None:
                    return prompt_id, found
        return None

    def lines(self, prompt_id: str) -> list[str]:
        """Return the advice as lines of text; none if nothing is known."""
        try:
            return lines_of(self.advice(prompt_id))
        except NotKnown:
            return []

    def _fits_of(self, prompt_id: str) -> Any:
        state = self.recorder.look(prompt_id, lambda run: (run.started_at, run.status))
        if state is None or state[1] == "running":
            return None
        key = prompt_id, state[0]
        failure = self.facts(prompt_id).get("failure")
        # If it stopped for another reason, its full use is unknown.
        if key not in self._fits and (state[1] == "success" or failure):
            case = self._case(prompt_id, Surroundings(failure))
            self._fits[key] = None if case is None else fits(case)
        return self._fits.get(key)

    def _json(self, case: Case, finding: Finding) -> dict[str, Any]:
        if _is_of_peak(finding):
            low, high = finding.saves
            wide = Bounds(max(low - PIECE, 0), min(high + PIECE, case.peak_bytes))
            finding = replace(finding, saves=wide)
        return finding.as_json()

    def _case(self, prompt_id: str, around: Surroundings) -> Case | None:
        prompt = self._prompt(prompt_id)
        seen = self.recorder.look(
            prompt_id, lambda run: (case_of(run, prompt, self.registry, around),)
        )
        if seen is None:
            raise NotKnown(NO_RECORD)
        return seen[0]

    def _prompt(self, prompt_id: str) -> Prompt:
        """Return the nodes of a prompt as its user made it, without our guards."""
        return Graph(dict((self.prompt_of(prompt_id) or {}).items())).nodes

    def _measured(self, prompt_id: str, case: Case, findings: list[Finding]) -> list[Finding]:
        """Return the findings; each that a later run followed comes with what it saved there."""
        ids = self.recorder.newest_ids()
        for later in ids[: ids.index(prompt_id)] if prompt_id in ids else []:
            followed = applied(case.prompt, self._prompt(later), findings)
            peak = self.recorder.look(later, lambda run: _peak(run, case)) if followed else None
            if peak is not None:
                counted = [one for one in followed if _is_of_peak(one)]
                saved = {"mib": in_mib(case.peak_bytes - peak), "run": later}
                return [replace(one, measured={**saved, "together": [
                    other.id for other in counted if other is not one]})
                    if one in counted else one for one in findings]
        return findings


def _is_of_peak(finding: Finding) -> bool:
    """Return whether this finding predicts a lower peak, so that a later run can confirm it."""
    return finding.kind in PREDICTED and not finding.values.get("after")


def _peak(run: Run, case: Case) -> int | None:
    """Return the peak of a run that succeeded on the same device."""
    if run.status != "success" or case.device not in run.devices:
        return None
    peak = run.peaks[run.devices.index(case.device)]
    return None if peak is None else peak.at_least
