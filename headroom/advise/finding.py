"""One piece of advice: what to change, what it saves, and the figures that it is based on."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ..base.device import in_mib
from ..base.said import said_json

Json = dict[str, Any]
Kind = Literal[
    "encode_to_cpu", "offload_after", "purge_between", "cast_bf16", "oom_guard", "other_process",
    "expandable_segments", "gc_threshold", "reserve", "error", "ram_disk",
    "ram_cache", "ram_pinned", "ram_held", "ram_frames", "ram_models", "ram_headroom",
    "ram_without", "spill", "disk_reads",
]
Cost = Literal["none", "seconds", "picture"]


class Saves(NamedTuple):
    """By how many bytes a run's peak becomes lower: at least and at most."""

    low: int
    high: int


@dataclass(frozen=True)
class Finding:
    """What to change. `values`: figures and names for the sentence, in any language.

    `measured_on`: the measured figures that it is based on. `cost`: the price, from nothing to
    seconds to another picture. `edit` None: a setting, described in words.
    """

    kind: Kind
    saves: Saves
    values: Json
    measured_on: Json
    node_ids: tuple[str, ...] = ()
    changes_picture: bool = False
    cost: Cost = "none"
    edit: Json | None = None
    measured: Json | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """A name that is the same for the same advice in every run of a workflow."""
        output = [f"output{self.values['output']}"] if "output" in self.values else []
        end = ["end"] if self.values.get("after") else []
        return "-".join([self.kind, *self.node_ids, *output, *end])

    def as_json(self, text: str) -> Json:
        return {
            "id": self.id,
            "kind": self.kind,
            "text": text,
            "said": said_json(text),
            "values": self.values,
            "saves_mib": [in_mib(self.saves.low), in_mib(self.saves.high)],
            "measured_on": self.measured_on,
            "node_ids": list(self.node_ids),
            "changes_picture": self.changes_picture,
            "cost": self.cost,
            "edit": self.edit,
            "measured_mib": self.measured,
        }
