"""What became of each prompt of the soak, and whether anything is wrong with it."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak_prompts import Soaked

from tools.client import failure_of, was_interrupted

PERSISTENT = 10**9
SPLIT_TOLERANCE = 1e-3  # of the range of the reference
PACK_FRAME = "custom_nodes/headroom/"
GUARD_FRAME = f"{PACK_FRAME}headroom/guard/"
Kept = list[list[str]]


@dataclass
class Reference:
    """The digests of an unfaulted run, how many allocations it made, and the digests in tiles."""

    kept: Kept
    allocations: int
    tiled: Kept


@dataclass
class Done:
    """One finished prompt of the soak."""

    kind: str
    soaked: Soaked
    entry: dict[str, Any]
    record: dict[str, Any]
    fault: dict[str, Any]
    disk_was_full: bool = False

    @property
    def struck(self) -> bool:
        return bool(self.fault.get("failed"))

    def kept(self) -> Kept:
        outputs = self.entry.get("outputs", {})
        return [outputs.get(node, {}).get("text", []) for node in self.soaked.kept]


@dataclass
class Judge:
    """Compares prompts with their references; whatever cannot be explained is a problem."""

    references: dict[tuple[str, int], Reference]
    arrays: Path
    counts: dict[str, int] = field(default_factory=dict)
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    largest_difference: float = 0.0

    def judge(self, done: Done) -> str:
        """Return the word for what became of this prompt."""
        word = self._word(done)
        self.counts[word] = self.counts.get(word, 0) + 1
        kinds = self.by_kind.setdefault(done.kind, {})
        kinds[word] = kinds.get(word, 0) + 1
        return word

    def _word(self, done: Done) -> str:
        if was_interrupted(done.entry):
            return "interrupted"
        if done.entry.get("status", {}).get("status_str") == "error":
            return why_failed(done) or self._problem(done, "unexplained failure")
        reference, kept = self.references[done.kind, done.soaked.seed], done.kept()
        wanted = reference.kept
        if kept == wanted:
            return "identical after recovery" if done.struck else "identical"
        actions = " ".join(step["action"] for step in done.record.get("oom", []))
        choices = [wanted, reference.tiled] if "tiles" in actions else [wanted]
        difference = self._difference(kept, choices)
        if difference == 0 and "tiles" in actions:
            return "identical to ComfyUI's own tiles"
        self.largest_difference = max(self.largest_difference, difference)
        if difference > SPLIT_TOLERANCE:
            return self._problem(done, f"wrong result, by {difference:.3g} of its range")
        if "split the batch" in actions:
            return "within a thousandth after a split"
        if done.struck and not done.soaked.guarded:
            return "within a thousandth after ComfyUI's own retry"
        return self._problem(done, f"other bits without a split, by {difference:.3g}")

    def _difference(self, kept: Kept, choices: Sequence[Kept]) -> float:
        """The largest difference of all from the nearest choice; infinite for other counts."""
        if any([len(part) for part in kept] != [len(part) for part in one] for one in choices):
            return math.inf
        places = zip(flat(kept), *map(flat, choices), strict=True)
        return max((min(self._distance(digest, one) for one in wanted)
                    for digest, *wanted in places), default=0.0)

    def _distance(self, digest: str, wanted: str) -> float:
        """How far two arrays differ at most, as a part of the range; infinite for other shapes."""
        import numpy

        if digest == wanted:
            return 0.0
        left, right = (numpy.load(self.arrays / f"{name}.npy") for name in (digest, wanted))
        if left.shape != right.shape:
            return math.inf
        spread = float(right.max() - right.min()) or 1.0
        return float(abs(left - right).max()) / spread

    def _problem(self, done: Done, what: str) -> str:
        failure = failure_of(done.entry)
        text = str(failure.get("exception_message", "")).strip()[:500]
        frames = "".join(failure.get("traceback", []))[-2500:]
        self.problems.append(
            f"{done.soaked.tag} {done.kind}: {what}; fault {done.fault}; node "
            f"{failure.get('node_type')}: {failure.get('exception_type')}: {text}\n{frames}"
            f"\nattempts: {[step['action'] for step in done.record.get('oom', [])]}"
        )
        return what.split(",")[0]


def why_failed(done: Done) -> str | None:
    """The explanation of a failed prompt, or None."""
    failure = failure_of(done.entry)
    message = str(failure.get("exception_message", ""))
    node, frames = failure.get("node_type"), "".join(failure.get("traceback", []))
    if node == "HeadroomOffloadModel" and done.disk_was_full and message.startswith("Offload"):
        return "the disk refused an offload, said in one sentence"
    if not done.struck:
        return None
    if done.fault["kind"] == "illegal_access":
        return "failed by an injected error that is none of memory"
    if done.fault["times"] == PERSISTENT:
        return "failed as no allocation succeeded any more"
    if not done.soaked.guarded:
        return "failed by an injected fault without a guard"
    if GUARD_FRAME not in frames.replace("\\", "/"):
        return "failed by an injected fault outside of the guarded calls"
    attempts = re.search(r"after (\d+) attempts?", message)
    if attempts and done.fault["failed"] > int(attempts.group(1)):
        return "failed as an injected fault hit every attempt of the guard"
    return None


def flat(kept: Kept) -> list[str]:
    """All digests in order."""
    return [digest for part in kept for digest in part]


@dataclass(frozen=True)
class Slope:
    """A straight line through measurements: its slope, and how far the slope is uncertain."""

    per_hundred: float
    uncertainty: float

    @property
    def is_flat(self) -> bool:
        return abs(self.per_hundred) <= self.uncertainty


def slope(prompts: Sequence[int], values: Sequence[float]) -> Slope:
    """Ordinary least squares over the points; the uncertainty is 95 % (Student's t)."""
    from scipy import stats

    line = stats.linregress(prompts, values)
    spread = stats.t.ppf(0.975, len(prompts) - 2) * line.stderr
    return Slope(100 * float(line.slope), 100 * float(spread))


NODE_ERROR, PROMPT_END = "!!! Exception during processing", "Prompt executed in"
ALWAYS_BAD = (
    "Error handling request", "Exception in thread", "was never retrieved", "Exception ignored",
    "[Headroom] a request failed", "Segmentation fault", "Fatal Python error",
)


def log_problems(log: str, expected: Iterable[str] = ()) -> list[str]:
    """Tracebacks in a server's log that are not those of a failed node, with their last lines.

    A line with one of the `expected` texts after a bad line explains it.
    """
    lines, found, in_node_error = log.splitlines(), [], False
    for number, line in enumerate(lines):
        if NODE_ERROR in line:
            in_node_error = True
        elif PROMPT_END in line or "got prompt" in line:
            in_node_error = False
        bad = any(text in line for text in ALWAYS_BAD)
        bad = bad or (line.startswith("Traceback (most recent") and not in_node_error)
        if bad:
            part = "\n".join(lines[number : number + 40])
            if not any(text in part for text in expected):
                found.append(part)
    return found
