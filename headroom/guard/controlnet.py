"""ControlNets under the OOM Guard: retry a failed call, and run their network in pieces."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from ..base.said import said
from ..host.adapter import guard_host
from . import lessons
from .choose import RecoveryStep
from .copies import Guarded, guarded_copy
from .explain import Subject
from .ladder import Ladder, guarded, is_recovering
from .options import GuardOptions
from .remembered_run import learn_from, recall_into
from .replay import RandomState
from .run import GuardedRun
from .run_steps import SplitBatch
from .split_batch import Unsplittable, join_rows, rows_of
from .steps import OffloadWeights, ReturnMemory, UnloadOthers, ladder_of


class InPieces:
    """Stands for the network inside a ControlNet and runs it in pieces of at most `limit()` rows.

    Called with keywords (x, hint, timesteps, context ...), all with the batch in dimension 0.
    Every other attribute is the network's own.
    """

    def __init__(self, network: Any, limit: Callable[[], int | None]) -> None:
        self._network = network
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        if name in ("_network", "_limit"):  # a copy that is not filled in yet
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


def splitting_copy(control: Any, run: GuardedRun) -> Any:
    """Return our own copy of a ControlNet chain that runs its networks in the run's pieces.

    The copy shares weights and hint with the original, which is not touched. Made once a run.
    """
    known = run.copies.get(id(control))
    if known is not None:
        return known[1]
    copied = copy.copy(control)
    network = getattr(control, "control_model", None)
    if isinstance(network, torch.nn.Module):
        copied.control_model = InPieces(network, lambda: run.limit)
    previous = getattr(control, "previous_controlnet", None)
    if previous is not None:
        copied.previous_controlnet = splitting_copy(previous, run)
    run.copies[id(control)] = (control, copied)
    return copied


def with_splitting_controls(conds: list[Any], run: GuardedRun) -> list[Any]:
    """Return `conds` (lists of dicts, or None) with each ControlNet replaced by its copy."""
    return [cond if cond is None else [_with_copy(entry, run) for entry in cond] for cond in conds]


def _with_copy(entry: dict[str, Any], run: GuardedRun) -> dict[str, Any]:
    control = entry.get("control")
    return entry if control is None else {**entry, "control": splitting_copy(control, run)}


def guard_control(control: Any, options: GuardOptions) -> Any:
    """Return a copy of a ControlNet and its chain whose calls recover from out-of-memory errors."""
    copy_of = guarded_copy(control.copy(), GuardedControl, options)
    previous = getattr(control, "previous_controlnet", None)
    return copy_of.set_previous_controlnet(previous)


class GuardedControl(Guarded):
    """The methods of a ControlNet that the guard stands before."""

    guard_run: GuardedRun | None = None  # of the sampling in progress
    guard_kind: tuple[Any, int | None] = (None, None)  # of its calls, and the room they begin with
    previous_controlnet: Any = None

    def copy(self) -> Any:
        """The nodes that apply a ControlNet work on a copy: it stays guarded."""
        made = super().copy()  # type: ignore[misc]
        return guarded_copy(made, GuardedControl, self.guard_options)

    def set_previous_controlnet(self, controlnet: Any) -> Any:
        """Chain another one behind this one, guarded too: a failed call resets the whole chain."""
        if controlnet is not None and not isinstance(controlnet, GuardedControl):
            controlnet = guarded_copy(controlnet, GuardedControl, self.guard_options)
        return super().set_previous_controlnet(controlnet)  # type: ignore[misc]

    def cleanup(self) -> None:
        self.guard_run = None
        super().cleanup()  # type: ignore[misc]

    def get_control(self, x_noisy: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """x_noisy: (B, ...) joined as for the model; returns the control tensors."""
        if is_recovering():
            return super().get_control(x_noisy, *args, **kwargs)  # type: ignore[misc]
        run = self.guard_run = self.guard_run or self._begun(x_noisy)
        run.start_step(x_noisy.shape[0])
        state = RandomState()

        def call() -> Any:
            if run.limit is None:
                return super(GuardedControl, self).get_control(  # type: ignore[misc]
                    x_noisy, *args, **kwargs)
            return splitting_copy(self, run).get_control(x_noisy, *args, **kwargs)

        def as_at_first() -> None:
            state.restore()
            run.copies.clear()
            _forget_hints(self)
            guard = guard_host()
            if guard is not None:
                guard.revive_dynamic(guard.currently_used())

        result = guarded(call, lambda: _ladder(self, run, x_noisy, as_at_first))
        learn_from(run, *self.guard_kind)
        return result

    def _begun(self, x: torch.Tensor) -> GuardedRun:
        """Return the run of a sampling that begins: with what an earlier one of its kind taught."""
        run, models = GuardedRun(), self.get_models()  # type: ignore[attr-defined]
        names = tuple(lessons.identity(patcher) for patcher in models)
        kind = ("control", names, tuple(x.shape), self.guard_options)
        self.guard_kind = (kind, lessons.room_bytes(x.device))
        recall_into(run, *self.guard_kind)
        return run


def _forget_hints(control: Any) -> None:
    """Drop the prepared hints of our copies: one caught half-made would pass for ready."""
    while control is not None:
        control.cond_hint = None
        control = control.previous_controlnet


def _ladder(
    control: Any, run: GuardedRun, x: torch.Tensor, before_retry: Callable[[], None]
) -> Ladder:
    guard, options = guard_host(), control.guard_options
    steps: list[RecoveryStep] = [ReturnMemory()]
    if guard is not None and options.free_other_models:
        steps.append(UnloadOthers(lambda: [*guard.currently_used(), *control.get_models()]))
    if options.offload_weights:
        steps.append(OffloadWeights(control.get_models))
    if options.split_batch:
        steps.append(SplitBatch(run))
    doing = said("doing_controlnet", "a ControlNet")
    subject = Subject(doing, options, x.shape[0], "", control.get_models())
    return ladder_of(subject, steps, before_retry, noted=run.lacked)
