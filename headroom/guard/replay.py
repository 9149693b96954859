"""Save and restore random state and argument containers, so that a repeated call is the same."""

from types import FunctionType
from typing import Any

import torch

from ..base import device as devices

_LARGE_BYTES = 64 << 20  # latents are smaller; attention scores, which SAG keeps, are larger


class RandomState:
    """The state of torch's global generators, CPU and the accelerators in use, at one moment.

    Saving it costs some microseconds, makes no device wait and creates no context.
    """

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._devices: list[tuple[Any, tuple[torch.device, ...], torch.Tensor]] = []
        for device in devices.accelerators():
            module = devices.backend(device)
            # A backend with another name than the device's draws on the CPU generator.
            if module is getattr(torch, device.type, None) and module is not None:
                which = () if device.type == "mps" else (device,)  # MPS has one device
                self._devices.append((module, which, module.get_rng_state(*which)))

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        for module, which, state in self._devices:
            module.set_rng_state(state, *which)


class Containers:
    """The contents of nested dicts and lists at one moment, which can be put back in place.

    A failed call may have added to the options it was given. The objects in the containers are not
    copied; the containers keep their identity, so whoever refers to one sees it restored. So do
    functions among them, which may keep something from one call to the next (APG of ComfyUI).
    Tuples cannot change, but what is in them can.
    """

    def __init__(self, value: dict[str, Any]) -> None:
        self._saved: dict[int, tuple[Any, Any]] = {}  # by the id of the container
        self._kept: list[tuple[Any, Any]] = []
        items: list[Any] = [value]
        for item in items:  # which grows meanwhile
            kind = type(item)
            if kind is tuple:
                items += item
            elif kind is FunctionType and item.__closure__:
                self._kept += [(cell, kept) for cell in item.__closure__ for kept in _in(cell)]
            elif (kind is dict or kind is list) and id(item) not in self._saved:
                self._saved[id(item)] = item, (contents := item.copy())
                items += contents.values() if kind is dict else contents

    def restore(self) -> None:
        for container, contents in self._saved.values():
            if type(container) is dict:
                container.clear()
                container.update(contents)
            else:
                container[:] = contents
        for cell, kept in self._kept:
            cell.cell_contents = kept


def _in(cell: Any) -> list[Any]:
    """Return what a variable of a function's closure refers to; nothing before it is set.

    Nor a large tensor, which would take the room of the call.
    """
    try:
        kept = cell.cell_contents
    except ValueError:
        return []
    return [] if isinstance(kept, torch.Tensor) and kept.nbytes > _LARGE_BYTES else [kept]
