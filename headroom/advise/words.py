"""The sentences of findings, and advice as lines of text."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.said import Said, said
from .finding import Finding

SENTENCES = {
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


def text_of(finding: Finding) -> Said:
    """Return the sentence of a finding: that of its kind, or another one that it names."""
    return said(SENTENCES[finding.values.get("sentence", finding.kind)], **finding.values)


def short_text(amount_bytes: float) -> str:
    """Return an amount as the panel writes it (`js/lib/format.js`): three digits at most."""
    mib = amount_bytes / 2**20
    amount, unit = (mib, "MiB") if mib < 999.5 else (mib / 1024, "GiB")
    digits = 1 if amount < (9.95 if unit == "MiB" else 99.95) else 0
    return f"{amount:.{digits}f}".removesuffix(".0") + f" {unit}"


def saves_text(low_mib: float, high_mib: float) -> str:
    """Return a range in a form for people."""
    low, high = short_text(low_mib * 2**20), short_text(high_mib * 2**20)
    if low == high:
        return f"saves about {high}"
    if low_mib < 1:
        return f"saves up to {high}"
    return f"saves {low} to {high}"


def lines_of(advice: Sequence[Mapping[str, Any]], most: int = 5) -> list[str]:
    """Return advice as numbered lines of text, with what each saves."""
    told = [f"{number}. {one['text']}" + (f" ({_saving(one)})" if one["saves_mib"][1] else "")
            for number, one in enumerate(advice[:most], 1)]
    if (more := len(advice) - most) > 0:
        told.append(f"and {more} more")
    return told


def _saving(one: Mapping[str, Any]) -> str:
    saves = saves_text(*one["saves_mib"])
    if one["kind"] == "oom_guard":
        return f"{saves} of what it needs"
    if not (measured := one.get("measured_mib")):
        return saves
    return f"{saves}; it saved {short_text(measured['mib'] * 2**20)}"


def amounts(**named: int) -> dict[str, Any]:
    """Return amounts in bytes as text for a sentence, and as numbers for other languages."""
    return {name: short_text(amount) for name, amount in named.items()}
