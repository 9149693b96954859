"""The verdict on a run on one card: a word with its number."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .fit_range import Unmodelled

NO_SIZE = "more than 1EB"  # PyTorch's words for a size that was never computed
NO_RAM = "Cannot allocate memory"  # Linux's words
RESIDENT_BELOW_MIB = 8  # beyond what a step copies where there is room for everything
# What OOM Guard says of the call that it could not finish.
GUARDS_AMOUNT = re.compile(r"asked for ([\d.,]+) MiB")
MIB = 1 << 20
Json = dict[str, Any]


@dataclass(frozen=True)
class Node:
    """What one node took, in MiB: at the peak of the device, of that by tensors and pages.

    `workspace_mib`: the largest that a convolution had, which is part of the need. `steps_mib`:
    copied to the device in each step, of `copied_mib` in all. `refused`: allocations that found no
    room. `unmodelled_mib`: what it may need beyond that at most (tools/fit_range.py).
    """

    node_id: str
    class_type: str
    title: str
    peak_mib: float
    need_mib: float
    workspace_mib: float
    refused: int
    steps_mib: tuple[float, ...] = ()
    copied_mib: float = 0.0
    unmodelled_mib: float = 0.0

    @property
    def range_mib(self) -> tuple[float, float]:
        """The least and the most that it needs: without workspace, and with all that may come."""
        return self.need_mib - self.workspace_mib, self.need_mib + self.unmodelled_mib


@dataclass(frozen=True)
class Verdict:
    """`word`: resident, streams, fails, stopped for a node that needs real values, or not loaded.

    `mib`: moved a step, or asked for in vain (None: not told). `most_mib`: moved a step where what
    is not modelled takes the room of weights. `node`: which one failed. `file`: which one this
    ComfyUI does not load.
    """

    word: str
    mib: float | None = None
    node: str = ""
    why: str = ""
    file: str = ""
    most_mib: float | None = None

    @property
    def text(self) -> str:
        if self.word == "streams":
            return f"streams {_from_to(self.mib or 0.0, self.most_mib)} MiB a step"
        if self.word == "fails":
            asked = "more than there is" if self.mib is None else f"{self.mib:,.0f} MiB"
            if self.mib is not None and self.mib < 1:
                asked = "less than 1 MiB"
            return f"fails in {self.node}, asks for {asked}"
        return f"{self.word} in {self.node}" if self.node else self.word

    def as_json(self) -> Json:
        return {**asdict(self), "text": self.text}


def verdict(
    nodes: Sequence[Node], samplers: Sequence[str], error: Any = None,
    anyway_mib: Mapping[str, float] | None = None, loads: str = "", layer_mib: float = 0.0,
) -> Verdict:
    """The verdict on a run; `error` is its PromptFailed, `samplers` the nodes whose steps count.

    `anyway_mib`: what a step of each sampler copies on a card without end (latents, positions).
    `loads`: the model file that the node which failed reads, where that is all it does.
    `layer_mib`: the largest weight of what samples.
    """
    anyway = anyway_mib or {}
    if error is not None:
        titles = {node.node_id: node.title for node in nodes}
        where = f"{titles.get(error.node_id) or error.node_type} ({error.node_id})"
        if not error.out_of_memory or NO_SIZE in error.exception_message:
            why = error.exception_message.strip()[:300]
            unknown = bool(loads) and NO_RAM not in why
            return Verdict("not loaded" if unknown else "stopped", None, where, why, loads)
        first = error.exception_message.strip().splitlines()[:1]
        return Verdict("fails", asked_mib(error.exception_message), where, "".join(first)[:300])
    moved = [((per_step_mib(node) or 0.0) - anyway.get(node.node_id, 0.0), node.unmodelled_mib)
             for node in nodes if node.node_id in samplers]
    mib, more = max([(0.0, 0.0), *moved])
    if mib < RESIDENT_BELOW_MIB:
        return Verdict("resident", round(mib, 1))
    return Verdict("streams", round(mib, 1), most_mib=round(mib + more + layer_mib, 1))


def _from_to(low_mib: float, high_mib: float | None) -> str:
    low, high = f"{low_mib:,.0f}", f"{high_mib or low_mib:,.0f}"
    return low if low == high else f"{low} to {high}"


def per_step_mib(node: Node) -> float | None:
    """Return what a step moves at most after the first one, which loads the model. None without
    steps.
    """
    return max(node.steps_mib[1:], default=None)


def asked_mib(message: str) -> float | None:
    """The size of the allocation that failed, from the error's words; None where they say none."""
    from headroom.guard.errors import requested_bytes

    asked = requested_bytes(message)
    if asked is not None:
        return round(asked / MIB, 1)
    guards = GUARDS_AMOUNT.search(message)
    return float(guards[1].replace(",", "")) if guards else None


def nodes_of(record: Mapping[str, Any], taken: Sequence[Mapping[str, Any]], context_mib: float,
             unmodelled: Unmodelled | None = None) -> list[Node]:
    """The nodes of a run: the pack's own record of it, and the driver's figures of each node."""
    driver = {node["node_id"]: node for node in taken}
    nodes = []
    for node in record["nodes"]:
        own = driver.get(node["node_id"])
        if own is None:
            continue
        peak = own["peak_bytes"] / MIB
        need = (own["allocated_bytes"] + own["pages_bytes"]) / MIB + context_mib
        nodes.append(Node(
            node["node_id"], node["class_type"], node["title"] or node["class_type"],
            round(peak, 1), round(min(need, peak), 1),
            round(own["workspace_bytes"] / MIB, 1), own["refused"],
            tuple(round(step / MIB, 1) for step in own["steps"]),
            round(own["htod_bytes"] / MIB, 1),
            round(unmodelled.mib(own["workspace_bytes"] / MIB), 1) if unmodelled else 0.0))
    return nodes
