"""Encode prompts with ComfyUI's own encoder and keep the results, and only these, in RAM."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..actions.to_cpu import OnCpu, to_cpu
from ..base.device import MIB, clear_workspaces
from ..base.inputs import attribute, came, expect_choice, expect_flag, expect_list, expect_text
from ..base.said import said
from ..base.tensors import storage_bytes, tensors_within
from ..host.adapter import current_host, return_cache
from ..host.features import lost
from ..measure.journal import note_action, note_embeddings
from ..measure.report import Report
from ..measure.snapshot import snapshot
from ..models.find import find_models
from ..models.unload import unload_models
from .cache_key import EmbeddingLookup

Split = Literal["one prompt", "one prompt per line"]


@dataclass(frozen=True)
class Encoded:
    """One conditioning for each prompt, in the same order, and what was measured."""

    conditionings: list[Any]
    prompts: list[str]
    report: Report


def split_prompts(text: str, split: Split) -> list[str]:
    """Return the prompts in `text`: all of it, or one for each line that is not blank.

    Raises ValueError for an unknown `split`, or if no line is left. One empty prompt is a prompt,
    as in ComfyUI's node.
    """
    expect_text("Encode to CPU", "text", text)
    expect_choice("Encode to CPU", "split", split, Split)
    if split == "one prompt":
        return [text]
    prompts = [line.strip() for line in text.splitlines() if line.strip()]
    if not prompts:
        raise ValueError(said(
            "Encode to CPU with split = 'one prompt per line' expects at least one line of text, "
            "but every line of the input `text` is blank: write a prompt there, or choose "
            "'one prompt'."))
    return prompts


def encode_to_cpu(
    clip: Any,
    prompts: Sequence[str],
    release_encoder: bool = True,
    lookup: EmbeddingLookup | None = None,
    more_follow: bool = False,
) -> Encoded:
    """Encode each prompt as ComfyUI's CLIPTextEncode would, one conditioning each, all in RAM.

    `clip` has `tokenize` and `encode_from_tokens_scheduled`; it may be None if `lookup` has every
    prompt. With `more_follow` the encoder stays loaded for the next call of a list. Prompts are
    encoded one at a time, because only that gives identical results: ComfyUI's encoders join the
    parts of a batch into one conditioning and return the pooled output of the first part. It costs
    one pass of the encoder for each new prompt, and RAM for the results. Raises ValueError without
    an encoder, and the encoder's errors; prompts encoded before an interrupt are in the disk cache.
    """
    expect_list("Encode to CPU", "prompts", prompts)
    for prompt in prompts:
        expect_text("Encode to CPU", "text", prompt)
    expect_flag("Encode to CPU", "release_encoder", release_encoder)
    before = snapshot()
    moved = OnCpu()
    conditionings, fresh = _conditionings(clip, prompts, lookup, moved)
    steps = [_encoded_text(moved, fresh)]
    steps += moved.named_left()
    if lookup is not None:
        steps.append(_cache_text(lookup, len(set(prompts)), fresh))
        note_embeddings(len(set(prompts)) - fresh, fresh)
        lookup.cache.trim()
    steps += _release(clip, release_encoder, more_follow)
    report = Report(_headline(conditionings), tuple(steps), before, snapshot())
    note_action("encode", report.freed_mib, report.headline)
    return Encoded(conditionings, list(prompts), report)


def _conditionings(
    clip: Any, prompts: Sequence[str], lookup: EmbeddingLookup | None, moved: OnCpu
) -> tuple[list[Any], int]:
    """Return a conditioning for each prompt, and how many were encoded."""
    done: dict[str, Any] = {}
    if lookup is not None:
        lookup.has_all(prompts)
        done.update(lookup.found)
    fresh = [prompt for prompt in dict.fromkeys(prompts) if prompt not in done]
    if fresh and not _is_encoder(clip):
        raise ValueError(said(
            "Encode to CPU expects a text encoder on the input `clip`, but got {came}: connect "
            "the CLIP output of a loader; a checkpoint without a text encoder has none.",
            came=came(clip)))
    advance = _progress(len(fresh))
    for prompt in fresh:
        done[prompt] = _encode(clip, prompt, moved)
        if lookup is not None:
            lookup.store(prompt, done[prompt])
        advance()
    return [done[prompt] for prompt in prompts], len(fresh)


def _is_encoder(clip: Any) -> bool:
    asked = ("tokenize", "encode_from_tokens_scheduled")
    return all(callable(attribute(clip, name)) for name in asked)


def _encode(clip: Any, prompt: str, moved: OnCpu) -> Any:
    with torch.inference_mode():
        encoded = clip.encode_from_tokens_scheduled(clip.tokenize(prompt))
    return to_cpu(encoded, moved).value


def _progress(total: int) -> Any:
    """Return what to call after each prompt: it moves the bar on and checks for interrupts."""
    if current_host() is None or lost("files") or total == 0:
        return lambda: None
    from ..host import graph as host_graph

    bar = host_graph.ProgressBar(total)
    host_graph.stop_if_interrupted()

    def advance() -> None:
        bar.update(1)
        host_graph.stop_if_interrupted()

    return advance


def _release(clip: Any, asked: bool, more_follow: bool) -> list[str]:
    if clip is None:
        return ["encoder: not needed, so its loader did not run and nothing was loaded"]
    if not asked:
        return ["encoder: left loaded, as asked"]
    if more_follow:
        return ["encoder: left loaded for the next text of the list"]
    done = unload_models(find_models(clip))
    gc.collect()
    host = current_host()
    if host is not None:
        host.drop_cast_buffers()  # ComfyUI does so only after this node and its report
    clear_workspaces()  # the encoder's first matrix product made them
    return_cache()
    return [f"encoder released: {item.text}" for item in done]


def _encoded_text(moved: OnCpu, fresh: int) -> str:
    if fresh == 0:
        return "encoding: nothing to do"
    there = "" if moved.moved_bytes else " (ComfyUI keeps conditioning there by default)"
    return f"encoding: {_count(fresh)}, one at a time; {moved.text}{there}"


def _cache_text(lookup: EmbeddingLookup, distinct: int, fresh: int) -> str:
    if (why := lookup.problem) is not None:
        return f"disk cache: not used, because {why}"
    read = f"disk cache: {distinct - fresh} of {_count(distinct)} read"
    if fresh == 0:
        return read
    if (why := lookup.unwritten) is not None:
        return f"{read}; {fresh} encoded but not kept, because {why}"
    return f"{read}, {fresh} encoded and written"


def _count(prompts: int) -> str:
    return "1 prompt" if prompts == 1 else f"{prompts} prompts"


def _headline(conditionings: list[Any]) -> str:
    total = sum(conditioning_bytes(item) for item in {id(c): c for c in conditionings}.values())
    count = len(conditionings)
    return said(
        "1 prompt as conditioning in RAM, {total_mib}" if count == 1 else
        "{count} prompts as conditioning in RAM, {total_mib}", count=count, total_mib=total / MIB)


def conditioning_bytes(value: Any) -> int:
    """Return the bytes of all tensors in a conditioning, each storage once."""
    return sum(storage_bytes(tensors_within(value)).values())
