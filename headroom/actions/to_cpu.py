"""Bring every tensor inside a value to the CPU, wherever it sits in the structure.

The value itself is never changed: what holds a tensor is rebuilt around the copies, everything
else goes into the new structure as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.device import MIB
from ..base.numpy_backed import is_plain, numpy_backed
from ..base.said import joined, said
from ..measure.journal import note_action
from ..measure.report import Report, mib_text
from ..measure.snapshot import snapshot
from .rebuild import Rebuilding

MAX_NAMED = 10


@dataclass
class OnCpu:
    """A value whose tensors are on the CPU, and what that took.

    `total_bytes` are the bytes of all tensors, `moved_bytes` those that came from each device.
    `left` names what was not converted, one sentence each.
    """

    value: Any = None
    tensors: int = 0
    total_bytes: int = 0
    moved_bytes: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def add(self, other: "OnCpu") -> None:
        """Add the counts of `other` to these; the value stays."""
        self.tensors += other.tensors
        self.total_bytes += other.total_bytes
        for device, amount in other.moved_bytes.items():
            self.moved_bytes[device] = self.moved_bytes.get(device, 0) + amount
        self.left += [sentence for sentence in other.left if sentence not in self.left]

    def named_left(self) -> list[str]:
        """Return what was not converted as sentences, the first of them if there are many."""
        named: list[str] = [said("left_as_it_is", f"left as it is: {sentence}", what=sentence)
                            for sentence in self.left[:MAX_NAMED]]
        if (more := len(self.left) - MAX_NAMED) > 0:
            named.append(said("left_more", f"and {more} more left as they are", count=more))
        return named

    @property
    def text(self) -> str:
        """Where the tensors came from, in one sentence."""
        counted = f"{self.tensors} tensors ({mib_text(self.total_bytes)})"
        values = {"count": self.tensors, "total_mib": self.total_bytes / MIB}
        if not self.tensors:
            return said("moved_no_tensor", "0.0 MiB moved: there is no tensor in the value")
        if not self.moved_bytes:
            text = f"0.0 MiB moved: all {counted} were already on the CPU"
            return said("moved_nothing", text, **values)
        moved = joined(", ", [
            said("moved_from", f"{mib_text(size)} from {name}", moved_mib=size / MIB, device=name)
            for name, size in self.moved_bytes.items()
        ])
        text = f"{moved} moved to the CPU, of {counted} in all"
        return said("moved", text, moved=moved, **values)


def to_cpu(value: Any) -> OnCpu:
    """Return `value` with every tensor detached, on the CPU, contiguous and NumPy-backed.

    Looks into lists, tuples, named tuples, dicts (their keys stay), sets, deques, their subclasses,
    dataclasses, NumPy arrays of objects and ComfyUI's nested tensors, to any depth, through cycles.
    A tensor that appears twice is copied once. Objects of unknown classes are passed through and
    named in `left`. Costs RAM for one copy of all tensors, those already on the CPU included.
    """
    done = OnCpu()
    moving = Rebuilding(lambda part, path: _moved(part, path, done),
                        lambda part, path: _left(part, path, done))
    done.value = moving.rebuild(value)
    return done


def _moved(part: Any, path: Callable[[], str], done: OnCpu) -> Any:
    if issubclass(type(part), torch.Tensor):
        return _tensor(part, path, done)
    _left(part, path, done)
    return part


def _left(part: Any, path: Callable[[], str], done: OnCpu) -> None:
    place, name = path(), type(part).__name__
    text = f"{place}: of class {name}, passed through as it is"
    done.left.append(said("left_class", text, place=place, name=name))


def _tensor(tensor: torch.Tensor, path: Callable[[], str], done: OnCpu) -> torch.Tensor:
    device = tensor.device
    size = tensor.numel() * tensor.element_size()
    done.tensors += 1
    done.total_bytes += size
    if device.type == "meta":
        place = path()
        text = f"{place}: a meta tensor, which has no data to move"
        done.left.append(said("left_meta", text, place=place))
        return tensor
    if device.type != "cpu":
        done.moved_bytes[str(device)] = done.moved_bytes.get(str(device), 0) + size
    if is_plain(tensor):
        return numpy_backed(tensor)
    is_torchs_own = type(tensor) is torch.Tensor
    kind = (said("sparse_tensor", "sparse or nested tensor") if is_torchs_own
            else type(tensor).__name__)
    place = path()
    text = f"{place}: a {kind}, moved to the CPU as it is, not NumPy-backed"
    done.left.append(said("left_kind", text, place=place, kind=kind))
    return tensor.detach().to("cpu")


def move_to_cpu(value: Any) -> tuple[Any, Report]:
    """Return `value` with every tensor in RAM of its own, and the report.

    The value that came in is not changed. What still refers to it, ComfyUI's node cache first of
    all, keeps its device memory alive until it lets go.
    """
    before = snapshot()
    moved = to_cpu(value)
    report = Report(moved.text, tuple(moved.named_left()), before, snapshot())
    note_action("move to CPU", report.freed_mib, report.headline)
    return moved.value, report
