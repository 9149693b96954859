"""ControlNets of a guarded sampling: their networks run in the same pieces as the model."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from .run import Run
from .split_batch import Unsplittable, join_rows, rows_of

_PREPARED = ("cond_hints", "control_inputs")  # of newer ComfyUIs: prepared hints by size


class InPieces:
    """Replaces the network inside a ControlNet and runs it in pieces of at most `limit()` rows.

    It is called with keywords (x, hint, timesteps, context ...), all with the batch in dimension 0.
    All other attributes are those of the network.
    """

    def __init__(self, network: Any, limit: Callable[[], int | None]) -> None:
        self._network = network
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        if name in ("_network", "_limit"):  # `copy` asks before they are set
            raise AttributeError(name)
        return getattr(self._network, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        x = kwargs.get("x", args[0] if args else None)
        limit = self._limit()
        if limit is None or not isinstance(x, torch.Tensor) or x.shape[0] <= limit:
            return self._network(*args, **kwargs)
        batch = x.shape[0]
        del x
        spans = [(row, min(row + limit, batch)) for row in range(0, batch, limit)]
        try:
            calls = [
                ([rows_of(a, *span, batch) for a in args],
                 {name: rows_of(v, *span, batch) for name, v in kwargs.items()})
                for span in spans
            ]
        except Unsplittable:
            return self._network(*args, **kwargs)
        return join_rows([self._network(*some, **named) for some, named in calls])


def splitting_copy(control: Any, run: Run) -> Any:
    """Return our own copy of a ControlNet chain that runs its networks in the run's pieces.

    The copy shares weights and hint with the original, which does not change. In one run each
    ControlNet is copied once.
    """
    known = run.copies.get(id(control))
    if known is not None:
        return known[1]
    copied = copy.copy(control)
    for name in _PREPARED:
        if isinstance(vars(control).get(name), dict):
            setattr(copied, name, dict(vars(control)[name]))
    network = getattr(control, "control_model", None)
    if isinstance(network, torch.nn.Module):
        copied.control_model = InPieces(network, lambda: run.plan.parts)
    previous = getattr(control, "previous_controlnet", None)
    if previous is not None:
        copied.previous_controlnet = splitting_copy(previous, run)
    run.copies[id(control)] = (control, copied)
    return copied


def with_splitting_controls(conds: list[Any], run: Run) -> list[Any]:
    """Return `conds` (lists of dicts, or None) with each ControlNet replaced by its copy."""
    return [
        cond if cond is None else [
            entry if entry.get("control") is None
            else {**entry, "control": splitting_copy(entry["control"], run)} for entry in cond]
        for cond in conds
    ]
