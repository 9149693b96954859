"""Write OOM Guard's final error: what was tried, what was missing, what can help."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..base.device import MIB, computes_in_bf16
from ..base.said import joined, said
from ..base.tensors import module_tensors
from ..host.adapter import current_host
from ..measure.journal import OomAttempt
from ..measure.other_processes import other_processes
from ..measure.snapshot import DeviceMemory, Snapshot
from ..models.loaded import float32_bytes
from .attempt import Failure
from .call import GuardOptions
from .lack import Lack

_NOTABLE_BYTES = 256 * MIB  # a process that uses less is hardly the reason


def tried_text(attempts: Sequence[OomAttempt]) -> str:
    """Return the part of a sentence that lists what was tried, equal steps once with a count."""
    counted: dict[str, list[Any]] = {}
    for step in attempts:
        entry = counted.setdefault(step.action, [0, 0.0])
        entry[0] += 1
        entry[1] += step.freed_mib
    parts = [_tried(action, times, freed) for action, (times, freed) in counted.items()]
    if not parts:
        return said("nothing, because no step was allowed or could help")
    return joined("; ", parts)


def _tried(action: str, times: int, freed: float) -> str:
    if times > 1:
        action = said("{action} ({times} times)", action=action, times=times)
    if abs(freed) * MIB < 1:
        return said("{action}: nothing freed", action=action)
    return said("{action}: {freed_mib} freed", action=action, freed_mib=freed)


def explain(
    call: Any, options: GuardOptions, failures: Sequence[Failure], attempts: Sequence[OomAttempt],
    now: Snapshot, lack: Lack,
) -> str:
    """Return the text of the final error for `call`, with memory as it is `now`.

    failures: of the call, the first one and that of each attempt. lack: what the last one lacked,
    and on which device.
    """
    last = failures[-1]
    full = [one for one in now.devices if one.device == str(lack.device)]
    now = replace(now, devices=() if lack.where == "RAM" else (*full, *now.devices))
    return joined(" ", filter(None, [
        said("OOM Guard could not finish {what}: after {attempts} the call {asked} while {free}.",
             what=call.words, asked=_asked(last), free=_free(last, now),
             attempts=said("1 attempt") if len(attempts) == 1 else said(
                 "{count} attempts", count=len(attempts))),
        _held(lack),
        said("Tried: {tried}.", tried=tried_text(attempts)),
        said("Most likely to help: {advice}.",
             advice=joined(", or ", list(_advice(call, options, now))[:2])),
        _first_error(failures[0]),
    ]))


def _asked(last: Failure) -> str:
    asked = last.requested_bytes
    if last.is_incomplete:
        return said("still left out a part of a LoRA or ControlNet")
    if not asked:
        return said("still asked for more memory than there is")
    return said("still asked for {asked_mib}", asked_mib=asked / MIB)


def _free(last: Failure, now: Snapshot) -> str:
    if last.where == "RAM" or not now.devices:
        return said("{free_mib} of RAM were available", free_mib=now.ram_available_bytes / MIB)
    device = now.devices[0]
    free = device.available_bytes
    if free is None:
        return said("the free memory of {device} is not known", device=device.device)
    limit = device.ceiling and device.ceiling.limit_bytes
    words = said(
        "{free_mib} of the VRAM limit of {total_mib} were free on {device}" if limit else
        "{free_mib} of {total_mib} were free on {device}",
        free_mib=free / MIB, total_mib=(limit or device.total_bytes or 0) / MIB,
        device=device.device)
    if last.requested_bytes is None or free < last.requested_bytes:
        return words
    return said("{free}, but not in one piece", free=words)


def _held(lack: Lack) -> str:
    """Return a sentence about the memory that the failed call itself held; empty if not known."""
    if not (lack.is_too_much and lack.need_bytes and lack.room_bytes) or lack.held_bytes is None:
        return ""
    return said(
        "Without its weights the call held {held_mib} at that time, the free pieces between its "
        "tensors included. It needs {need_mib} or more, and {room_mib} can be free for it.",
        held_mib=lack.held_bytes / MIB, need_mib=lack.need_bytes / MIB,
        room_mib=lack.room_bytes / MIB)


def _first_error(first: Failure) -> str:
    if not first.has_begun:
        return said("ComfyUI did not begin: it expected to need {expected_mib}.",
                    expected_mib=(first.requested_bytes or 0) / MIB)
    return said("It first ran out of memory in {place}.", place=first.place) if first.place else ""


def _advice(call: Any, options: GuardOptions, now: Snapshot) -> Iterator[str]:
    yield from _switches(call, options)
    for device in now.devices[:1]:
        yield from _other_programs(device)
    if call.batch > 1:
        yield said("a smaller batch (now {batch})", batch=call.batch)
    if _is_float32(call.patchers):
        yield said("the node Cast bf16 on this model (its weights are float32)")
    if call.is_video:
        yield said("fewer frames")
    if call.size:
        yield said("a smaller width and height (now {size})", size=call.size)
    yield said("a smaller or more strongly quantised model file")


def _switches(call: Any, options: GuardOptions) -> Iterator[str]:
    off = {
        "split_batch": not options.split_batch and call.batch > 1,
        "tile_vae": not options.tile_vae and call.can_tile,
        "offload_weights": not options.offload_weights,
        "free_other_models": not options.free_other_models,
    }
    for name in [name for name, is_off in off.items() if is_off]:
        yield said("turning on {option} in the OOM Guard node", option=name)


def _other_programs(device: DeviceMemory) -> Iterator[str]:
    for other in other_processes(torch.device(device.device))[:1]:
        if other.used_bytes >= _NOTABLE_BYTES:
            yield said("closing {process}, which holds {used_mib} of the same GPU",
                       process=other.name, used_mib=other.used_bytes / MIB)


def _is_float32(patchers: Sequence[Any]) -> bool:
    """Return whether most bytes of the weights are float32, on a GPU that computes in bfloat16."""
    if current_host() is None or not computes_in_bf16():
        return False
    models = [patcher.model for patcher in patchers if patcher.load_device.type != "cpu"]
    total = sum(tensor.numel() * tensor.element_size()
                for model in models for _, tensor in module_tensors(model))
    single = sum(map(float32_bytes, models))
    return total > MIB and single > total // 2
