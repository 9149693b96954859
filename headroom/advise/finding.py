"""One piece of advice: what to change, what it saves, and the figures that it is based on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ..base.device import in_mib
from ..base.said import Said, said, said_json

Json = dict[str, Any]
Cost = Literal["none", "seconds", "picture"]
SENTENCES = {  # by the kind of a finding
    "error": "{what} What helps: {do}.",
    "encode_to_cpu": "{model} stays on the GPU while {node} runs ({held} that it does not need). "
                     "Let Encode to CPU encode the prompts: it keeps the result in RAM and frees "
                     "the text encoder.",
    "offload_after": "{model} stays on the GPU while {node} runs ({held} that it does not need). "
                     "An Offload Model unloads it before; it is loaded again when it is used.",
    "purge_between": "{model} stay on the GPU while {node} runs ({held} that it does not need). A "
                     "Purge VRAM unloads them before; they are loaded again when they are used.",
    "purge_at_end": "{left} stay on the GPU after {node}, the last node, so that the next run "
                    "starts faster. If other programs need the card, a Purge VRAM at the end frees "
                    "this memory.",
    "cast_bf16": "{model} is in float32 and takes {size} while {node} runs. Cast bf16 halves it, "
                 "which changes the picture a little.",
    "oom_guard": "{node} needs the most memory of this run: {peak} were in use. With less than "
                 "that the run would fail; with OOM Guard it continues in smaller pieces.",
    "oom_guard_failed": "{node} ran out of memory when it asked for {asked}. With OOM Guard it "
                        "frees what it can and tries again in smaller pieces.",
    "other_process": "{process} holds {held} of the same GPU. Close it, or run it elsewhere.",
    "reserve": "{process} takes {held} of the GPU at times. Start ComfyUI with "
               "{flag} {gib}, so that it leaves that much to others.",
    "ram_disk": "This run had {peak} of {limit} of RAM. Start ComfyUI with {flag}: weights then "
                "come from their files instead of from RAM that is not pinned.",
    "ram_cache": "This run had {peak} of {limit} of RAM. Start ComfyUI with {flag}, so that it "
                 "keeps no results of nodes there; every node then runs in every prompt.",
    "ram_pinned": "This run had {peak} of {limit} of RAM, {pinned} of it pinned for fast copies to "
                  "the GPU. Start ComfyUI with {flag}: the system can then take it back.",
    "ram_held": "This run had {peak} of {limit} of RAM. When it ended, most of it was held by "
                "{held}.",
    "ram_frames": "{node} decodes {frames} frames of {width}x{height} at once: {size} of RAM, "
                  "however small its VAE is. Decode them in parts and save each part before the "
                  "next, or make fewer frames in each prompt.",
    "ram_models": "{model} stays in RAM ({held}) after {node}, the last node that uses it, while "
                  "other large models are loaded. An Offload Model with `to` = `disk` after that "
                  "node frees this RAM.",
    "ram_headroom": "This run had {peak} of {limit} of RAM, {cached} of it results that ComfyUI "
                    "keeps. Start ComfyUI with {flag} {gib}: the number is how much RAM is to stay "
                    "free, not how large the cache may be.",
    "ram_without": "This run had {peak} of {limit} of RAM, {cached} of it results that ComfyUI "
                   "keeps. Start ComfyUI without {flag}, which makes it keep more there.",
    "spill": "The driver had moved {spilled} of VRAM into RAM while {node} ran, which makes it "
             "many times slower. Set a VRAM limit in the panel, or start ComfyUI with "
             "{flag} {gib}.",
    "disk_reads": "{node} read {read} from disk while it ran, {speed} a second, and RAM has room. "
                  "Start ComfyUI with {flag}, so that weights stay in RAM.",
    "expandable_segments": "PyTorch keeps {spare} after {node} that no tensor uses, in pieces that "
                           "may be too small. Start ComfyUI with the environment variable "
                           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ({source}).",
    "gc_threshold": "PyTorch keeps {spare} after {node} that no tensor uses. Start ComfyUI with "
                    "the environment variable "
                    "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:{threshold}, "
                    "so that it frees old pieces before memory runs short ({source}).",
}


class Bounds(NamedTuple):
    """Bytes: the least that it certainly is, and the most that it may be."""

    low: int
    high: int


NOTHING = Bounds(0, 0)
# By node and by what it is (a model's id, or another name): how many bytes of it are no longer on
# the device while that node runs.
Gone = Mapping[tuple[str, str], Bounds]


@dataclass(frozen=True)
class Finding:
    """What to change. `values`: figures and names for the sentence, in any language.

    `measured_on`: the measured figures that it is based on. `cost`: the price, from nothing to
    seconds to another picture. `edit` None: a setting, described in words.
    """

    kind: str
    saves: Bounds  # of a run's peak
    values: Json
    measured_on: Json
    node_ids: tuple[str, ...] = ()
    changes_picture: bool = False
    cost: Cost = "none"
    edit: Json | None = None
    measured: Json | None = field(default=None, compare=False)
    gone: Gone = field(default_factory=dict, compare=False)  # from the device, with this change

    @property
    def id(self) -> str:
        """A name that is the same for the same advice in every run of a workflow."""
        output = [f"output{self.values['output']}"] if "output" in self.values else []
        end = ["end"] if self.values.get("after") else []
        return "-".join([self.kind, *self.node_ids, *output, *end])

    @property
    def text(self) -> Said:
        """The sentence of its kind, or another one that its values name."""
        return said(SENTENCES[self.values.get("sentence", self.kind)], **self.values)

    def as_json(self) -> Json:
        return {
            "id": self.id,
            "kind": self.kind,
            "text": self.text,
            "said": said_json(self.text),
            "values": self.values,
            "saves_mib": [in_mib(self.saves.low), in_mib(self.saves.high)],
            "measured_on": self.measured_on,
            "node_ids": list(self.node_ids),
            "changes_picture": self.changes_picture,
            "cost": self.cost,
            "edit": self.edit,
            "measured_mib": self.measured,
        }
