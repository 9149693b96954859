"""Write the error with which OOM Guard gives up: what was tried, what was missing, what helps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.device import MIB
from ..base.tensors import module_tensors
from ..host.adapter import current_host
from ..measure.nvml import other_processes_mib
from ..measure.report import mib_text
from ..measure.snapshot import DeviceMemory, Snapshot
from .options import GuardOptions
from .recovery import Recovery, tried_text

_NOTABLE_MIB = 256.0  # another process below this is hardly the reason


@dataclass(frozen=True)
class Subject:
    """What was being computed, for the words of the error."""

    what: str
    options: GuardOptions
    batch: int = 1
    size: str = ""
    patchers: Sequence[Any] = field(default_factory=tuple)
    can_tile: bool = False


_more_to_say: list[Callable[[], str]] = []


def say_also(words: Callable[[], str]) -> None:
    """Let every final error end with what `words` returns at that time, unless that is empty."""
    _more_to_say.append(words)


def explain(subject: Subject) -> Callable[[Recovery, Snapshot], str]:
    """Return the writer of the final error for `subject`."""
    return lambda recovery, now: _text(subject, recovery, now)


def _text(subject: Subject, recovery: Recovery, now: Snapshot) -> str:
    count = len(recovery.attempts)
    advice = list(_advice(subject, now))[:2]
    sentences = [
        f"OOM Guard could not finish {subject.what}: after {count} "
        f"attempt{'' if count == 1 else 's'} the call {_asked(recovery)} while "
        f"{_free(recovery, now)}.",
        f"Tried: {tried_text(recovery)}.",
        _untried(subject, recovery),
        f"Most likely to help: {', or '.join(advice)}.",
        _came_from(recovery),
        *(words() for words in _more_to_say),
    ]
    return " ".join(filter(None, sentences))


def _asked(recovery: Recovery) -> str:
    asked = recovery.last.requested_bytes
    if recovery.last.is_incomplete:
        amount = f", which asked for {mib_text(asked)}," if asked else ""
        return f"still went on without a part of a LoRA or ControlNet{amount}"
    amount = mib_text(asked) if asked else "more memory than there is"
    return f"still asked for {amount}"


def _free(recovery: Recovery, now: Snapshot) -> str:
    last = recovery.last
    if last.where == "RAM" or not now.devices:
        return f"{mib_text(now.ram_available_bytes)} of RAM were available"
    device = now.devices[0]
    free = device.available_bytes
    if free is None:
        return f"the free memory of {device.device} is not known"
    total = f" of {mib_text(device.total_bytes)}" if device.total_bytes else ""
    words = f"{mib_text(free)}{total} were free on {device.device}"
    if last.requested_bytes is None or free < last.requested_bytes:
        return words
    piece = last.piece_bytes
    if piece is None or piece >= last.requested_bytes:
        return f"{words}, but not in one piece"
    return f"{words}, the largest piece of it {mib_text(piece)}"


def _untried(subject: Subject, recovery: Recovery) -> str:
    """Return which steps were not taken, each with the reason; a sentence or nothing."""
    options = subject.options
    off = [name for name in ("free_other_models", "offload_weights", "split_batch")
           if not getattr(options, name)]
    off += ["tile_vae"] if subject.can_tile and not options.tile_vae else []
    reasons = [*recovery.untried, *(f"{name} (it is off)" for name in off)]
    return f"Not tried: {', '.join(reasons)}." if reasons else ""


def _came_from(recovery: Recovery) -> str:
    place = recovery.first.place
    return f"It first ran out of memory in {place}." if place else ""


def _advice(subject: Subject, now: Snapshot) -> Iterator[str]:
    """Yield what could help, the most likely first."""
    yield from _switches(subject)
    for device in now.devices[:1]:
        yield from _other_programs(device)
    if subject.batch > 1:
        yield f"a smaller batch (now {subject.batch})"
    if _is_float32(subject.patchers):
        yield "the node Cast bf16 on this model (its weights are float32)"
    yield f"a smaller width and height{f' (now {subject.size})' if subject.size else ''}"
    yield "a smaller or more strongly quantised model file"


def _switches(subject: Subject) -> Iterator[str]:
    options = subject.options
    if not options.split_batch and subject.batch > 1:
        yield "turning on split_batch in the OOM Guard node"
    if not options.tile_vae and subject.can_tile:
        yield "turning on tile_vae in the OOM Guard node"
    if not options.offload_weights:
        yield "turning on offload_weights in the OOM Guard node"
    if not options.free_other_models:
        yield "turning on free_other_models in the OOM Guard node"


def _other_programs(device: DeviceMemory) -> Iterator[str]:
    found = other_processes_mib(torch.device(device.device))
    if not found:
        return
    process, used_mib = max(found.items(), key=lambda item: item[1])
    if used_mib >= _NOTABLE_MIB:
        yield f"closing process {process}, which holds {used_mib:,.0f} MiB of the same GPU"


def _is_float32(patchers: Sequence[Any]) -> bool:
    """Return whether most bytes of the weights are float32, on a GPU that computes in bfloat16."""
    if current_host() is None:
        return False
    total = single = 0
    for patcher in patchers:
        if patcher.load_device.type == "cpu":
            continue
        for _, tensor in module_tensors(patcher.model):
            size = tensor.numel() * tensor.element_size()
            total += size
            single += size if tensor.dtype == torch.float32 else 0
    return total > MIB and single > total // 2
