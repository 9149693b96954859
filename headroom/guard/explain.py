"""Write the error with which OOM Guard gives up: what was tried, what was missing, what helps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.device import MIB
from ..base.said import Said, joined, said
from ..base.tensors import module_tensors
from ..host.adapter import current_host
from ..measure.other_processes import other_processes
from ..measure.report import mib_text
from ..measure.snapshot import DeviceMemory, Snapshot
from .options import GuardOptions
from .recovery import Recovery, tried_text

_NOTABLE_BYTES = 256 * MIB  # another process below this is hardly the reason


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
    return joined(" ", filter(None, [
        _could_not(subject, recovery, now),
        _sentence("gave_up_tried", "Tried: {tried}.", tried=tried_text(recovery)),
        _untried(subject, recovery),
        _sentence("gave_up_advice", "Most likely to help: {advice}.",
                  advice=joined(", or ", list(_advice(subject, now))[:2])),
        _came_from(recovery),
        *(words() for words in _more_to_say),
    ]))


def _sentence(key: str, english: str, **values: Any) -> Said:
    """Return a sentence whose English is `english` with the values filled in."""
    return said(key, english.format(**values), **values)


def _could_not(subject: Subject, recovery: Recovery, now: Snapshot) -> str:
    count = len(recovery.attempts)
    return _sentence(
        "gave_up", "OOM Guard could not finish {what}: after {attempts} the call {asked} while "
        "{free}.", what=subject.what, attempts=_sentence(
            "attempts", "{count} attempt" + ("" if count == 1 else "s"), count=count),
        asked=_asked(recovery), free=_free(recovery, now),
    )


def _asked(recovery: Recovery) -> str:
    asked = recovery.last.requested_bytes
    amount = {"asked_mib": (asked or 0) / MIB}
    if recovery.last.is_incomplete:
        text = "still went on without a part of a LoRA or ControlNet"
        if not asked:
            return said("went_on", text)
        return said("went_on_asked", f"{text}, which asked for {mib_text(asked)},", **amount)
    if not asked:
        return said("still_asked_more", "still asked for more memory than there is")
    return said("still_asked", f"still asked for {mib_text(asked)}", **amount)


def _free(recovery: Recovery, now: Snapshot) -> str:
    last = recovery.last
    if last.where == "RAM" or not now.devices:
        ram = now.ram_available_bytes
        text = f"{mib_text(ram)} of RAM were available"
        return said("ram_available", text, free_mib=ram / MIB)
    device = now.devices[0]
    free = device.available_bytes
    if free is None:
        text = f"the free memory of {device.device} is not known"
        return said("free_unknown", text, device=device.device)
    words = _free_words(device, free)
    if last.requested_bytes is None or free < last.requested_bytes:
        return words
    piece = last.piece_bytes
    if piece is None or piece >= last.requested_bytes:
        return said("free_in_pieces", f"{words}, but not in one piece", free=words)
    text = f"{words}, the largest piece of it {mib_text(piece)}"
    return said("free_largest", text, free=words, piece_mib=piece / MIB)


def _free_words(device: DeviceMemory, free: int) -> str:
    total = device.total_bytes
    values: dict[str, Any] = {"free_mib": free / MIB, "device": device.device}
    if not total:
        return said("free_on", f"{mib_text(free)} were free on {device.device}", **values)
    text = f"{mib_text(free)} of {mib_text(total)} were free on {device.device}"
    return said("free_of", text, total_mib=total / MIB, **values)


def _untried(subject: Subject, recovery: Recovery) -> str:
    """Return which steps were not taken, each with the reason; a sentence or nothing."""
    options = subject.options
    off = [name for name in ("free_other_models", "offload_weights", "split_batch")
           if not getattr(options, name)]
    off += ["tile_vae"] if subject.can_tile and not options.tile_vae else []
    reasons = [*recovery.untried, *(_sentence("step_is_off", "{step} (it is off)", step=name)
                                    for name in off)]
    return _sentence("gave_up_untried", "Not tried: {steps}.",
                     steps=joined(", ", reasons)) if reasons else ""


def _came_from(recovery: Recovery) -> str:
    place = recovery.first.place
    return _sentence("gave_up_place", "It first ran out of memory in {place}.",
                     place=place) if place else ""


def _advice(subject: Subject, now: Snapshot) -> Iterator[str]:
    """Yield what could help, the most likely first."""
    yield from _switches(subject)
    for device in now.devices[:1]:
        yield from _other_programs(device)
    if subject.batch > 1:
        yield _sentence("try_batch", "a smaller batch (now {batch})", batch=subject.batch)
    if _is_float32(subject.patchers):
        yield said("try_cast", "the node Cast bf16 on this model (its weights are float32)")
    if subject.size:
        yield _sentence("try_size_now", "a smaller width and height (now {size})",
                        size=subject.size)
    else:
        yield said("try_size", "a smaller width and height")
    yield said("try_file", "a smaller or more strongly quantised model file")


def _switches(subject: Subject) -> Iterator[str]:
    options = subject.options
    off = {
        "split_batch": not options.split_batch and subject.batch > 1,
        "tile_vae": not options.tile_vae and subject.can_tile,
        "offload_weights": not options.offload_weights,
        "free_other_models": not options.free_other_models,
    }
    for name in [name for name, is_off in off.items() if is_off]:
        yield _sentence("try_switch", "turning on {option} in the OOM Guard node", option=name)


def _other_programs(device: DeviceMemory) -> Iterator[str]:
    for other in other_processes(torch.device(device.device))[:1]:
        if other.used_bytes >= _NOTABLE_BYTES:
            held = other.used_bytes / MIB
            text = f"closing {other.name}, which holds {held:,.0f} MiB of the same GPU"
            yield said("try_closing", text, process=other.name, used_mib=held)


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
