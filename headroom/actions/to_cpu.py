"""Copy every tensor inside a value to the CPU, wherever it is in the structure.

The value itself never changes: containers of tensors are rebuilt around the copies, and everything
else is used in the new structure unchanged.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from ..base.device import MIB
from ..base.numpy_backed import is_plain, numpy_backed
from ..base.said import joined, said
from ..measure.journal import note_action
from ..measure.report import Report
from ..measure.snapshot import snapshot
from .rebuild import Rebuilding

MAX_NAMED = 10


@dataclass
class OnCpu:
    """A value whose tensors are on the CPU, and the figures of the copy.

    `total_bytes`: of all tensors; `moved_bytes`: those from each device. `left`: a sentence about
    each part that was not converted.
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
        """Return sentences about what was not converted, only the first ones if there are many."""
        named = [f"left as it is: {sentence}" for sentence in self.left[:MAX_NAMED]]
        if (more := len(self.left) - MAX_NAMED) > 0:
            named.append(f"and {more} more left as they are")
        return named

    @property
    def text(self) -> str:
        """Where the tensors came from, in one sentence."""
        values = {"count": self.tensors, "total_mib": self.total_bytes / MIB}
        if not self.tensors:
            return said("0.0 MiB moved: there is no tensor in the value")
        if not self.moved_bytes:
            return said("0.0 MiB moved: everything was already on the CPU (tensors: {count}, "
                        "{total_mib})", **values)
        moved = joined(", ", [
            said("{moved_mib} from {device}", moved_mib=size / MIB, device=name)
            for name, size in self.moved_bytes.items()
        ])
        return said("{moved} moved to the CPU (tensors in all: {count}, {total_mib})",
                    moved=moved, **values)


def to_cpu(value: Any) -> OnCpu:
    """Return `value` with every tensor detached, on the CPU, contiguous and NumPy-backed.

    It searches lists, tuples, dicts (not their keys), their subclasses, dataclasses and ComfyUI's
    nested tensors, also with cycles. A tensor that occurs twice is copied once. Objects of other
    classes, also sets and NumPy arrays of objects, are passed on and named in `left`. It costs RAM
    for one copy of all tensors, even of those on the CPU. Raises ValueError for a value that is
    nested some hundred levels deep.
    """
    done = OnCpu()
    try:
        done.value = Rebuilding(lambda part, path: _moved(part, path, done)).rebuild(value)
    except RecursionError:
        raise ValueError("Move to CPU cannot follow a value whose lists or dicts are nested some "
                         "hundred levels deep.") from None
    return done


def _moved(part: Any, path: str, done: OnCpu) -> Any:
    if issubclass(type(part), torch.Tensor):
        return _tensor(part, path, done)
    done.left.append(f"{path}: of class {type(part).__name__}, passed on unchanged")
    return part


def _tensor(tensor: torch.Tensor, path: str, done: OnCpu) -> torch.Tensor:
    device = tensor.device
    size = tensor.numel() * tensor.element_size()
    done.tensors += 1
    done.total_bytes += size
    if device.type == "meta":
        done.left.append(f"{path}: a meta tensor, which has no data to move")
        return tensor
    if device.type != "cpu":
        done.moved_bytes[str(device)] = done.moved_bytes.get(str(device), 0) + size
    if is_plain(tensor):
        return numpy_backed(tensor)
    is_torchs_own = type(tensor) is torch.Tensor
    kind = "sparse or nested tensor" if is_torchs_own else type(tensor).__name__
    done.left.append(f"{path}: a {kind}, moved to the CPU as it is, not NumPy-backed")
    return tensor.detach().to("cpu")


def move_to_cpu(value: Any) -> tuple[Any, Report]:
    """Return `value` with every tensor in RAM of its own, and the report.

    The value itself does not change. Its device memory stays allocated while anything refers to it,
    above all ComfyUI's node cache.
    """
    before = snapshot()
    moved = to_cpu(value)
    report = Report(moved.text, tuple(moved.named_left()), before, snapshot())
    note_action("move to CPU", report.freed_mib, report.headline)
    return moved.value, report
