"""A MODEL under the OOM Guard: wrappers around loading, sampling, each step and each call.

A step that fails is repeated alone: completed steps are kept. What fails between the steps, in the
sampler's own arithmetic, starts the sampling again, with the same noise; so does a step in which
something of another pack takes part, which may keep what the failed step has left.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..base.said import said
from . import lessons, weights
from .call import Call, Plan
from .controlnet import with_splitting_controls
from .forward import forward
from .lack import Lack
from .options import GuardOptions
from .recover import recover
from .replay import Containers, RandomState
from .run import KEY, Run
from .trying import is_recovering

_DOING = {
    "doing_sampling": "sampling with {model}",
    "doing_loading": "loading {model} for sampling",
    "doing_step": "a step of sampling with {model}",
}
_MORE_ROOM = 4  # times ComfyUI's estimate, where loading leaves too little

Conds = dict[str, list[dict[str, Any]]]


def guard_model(patcher: Any, options: GuardOptions, guard: Any) -> Any:
    """Return a clone of a MODEL whose sampling recovers from out-of-memory errors.

    Guarding a guarded model, or a clone of one, replaces the guard. While nothing fails the results
    are the very same, and a step costs 0.3 ms of CPU time more (`benchmarks/oom_overhead.py`, on a
    virtual machine with two cores).
    """
    own = _Guard(options, guard)
    wrappers = (own.sample, own.load, own.step, own.conditionings, forward)
    return guard.wrap_model(patcher, KEY, dict(zip(guard.WRAPPERS, wrappers, strict=True)))


class _Guard:
    """The wrappers, as ComfyUI calls them: `executor` goes on to the next one or the original."""

    def __init__(self, options: GuardOptions, guard: Any) -> None:
        self._options = options
        self._guard = guard

    def sample(self, executor: Any, noise: Any, *args: Any, **kwargs: Any) -> Any:
        """OUTER_SAMPLE: one sampling run."""
        guider = executor.class_obj
        self._guard.start_sampling(guider)
        run = Run(_kind(guider, noise.shape, self._options))
        guider.model_options.setdefault("transformer_options", {})[KEY] = run
        state, containers = RandomState(), Containers(guider.model_options)

        def as_at_first() -> None:
            self._guard.end_sampling(guider)
            run.copies.clear()
            containers.restore()
            state.restore()

        call = _Sampling(self, run, "doing_sampling", guider.model_patcher, noise.shape,
                         lambda: executor(noise, *args, **kwargs), as_at_first)
        # What another pack keeps of a failed step cannot be taken back: all of it starts again.
        are_steps_ours = not self._guard.has_foreign_parts(guider, KEY)
        try:
            return recover(call, self._options, is_outer=are_steps_ours)
        finally:
            run.end()

    def load(
        self, executor: Any, patcher: Any, shape: Sequence[int], conds: Conds, *args: Any,
        **kwargs: Any,
    ) -> Any:
        """PREPARE_SAMPLING: load the models, with as much room for the computation as is planned.
        """
        run = _run_of(kwargs.get("model_options") or next(iter(args), None))
        # A restarted sampling would bring the conditionings that the first one has processed.
        conds = conds if run.conds is None else _copied(run.conds)
        run.conds = _copied(conds)
        run.in_use = [patcher, *self._guard.additional_models(patcher, conds)]

        def load() -> Any:
            estimate = max(self._guard.estimated_bytes(patcher.model, shape), 1.0)
            times = max(1.0, run.plan.room_bytes / estimate)
            room = [math.ceil(shape[0] * times), *shape[1:]] if times > 1 else shape
            return executor(patcher, room, conds, *args, **kwargs)

        call = _Loading(self, run, "doing_loading", patcher, shape, load)
        loaded = recover(call, self._options, run.plan)
        run.in_use = [patcher, *loaded[2], *patcher.model_patches_models()]
        if run.plan.room_bytes < weights.EVERYTHING:
            weights.make_room(run.in_use, run.plan.room_bytes)
        return loaded

    def step(
        self, executor: Any, x: torch.Tensor, timestep: Any,
        model_options: dict[str, Any] | None = None, *args: Any, **kwargs: Any,
    ) -> Any:
        """PREDICT_NOISE: one evaluation of the model; the very call that failed is repeated."""
        guider = executor.class_obj
        options: dict[str, Any] = {} if model_options is None else model_options
        run = _run_of(options)
        run.start_step()
        return self._step(
            lambda: executor(x, timestep, options, *args, **kwargs),
            run, guider.inner_model, lambda: list(getattr(guider, "conds", {}).values()),
            x, options,
        )

    def conditionings(
        self, executor: Any, model: Any, conds: list[Any], x: torch.Tensor, timestep: Any,
        model_options: dict[str, Any], *args: Any, **kwargs: Any,
    ) -> Any:
        """CALC_COND_BATCH: all conditionings of a step; a guard of its own outside of `step`."""
        run = _run_of(model_options)
        run.start_step(x.shape[0] * sum(len(cond or []) for cond in conds))

        def call() -> Any:
            own = conds if run.plan.parts is None else with_splitting_controls(conds, run)
            return executor(model, own, x, timestep, model_options, *args, **kwargs)

        if is_recovering():
            return call()
        return self._step(call, run, model, lambda: conds, x, model_options)

    def _step(
        self, do: Callable[[], Any], run: Run, model: Any, conds: Callable[[], list[Any]],
        x: torch.Tensor, options: dict[str, Any],
    ) -> Any:
        if is_recovering():
            return do()
        state, containers = RandomState(), Containers(options)

        def as_at_first() -> None:
            containers.restore()
            state.restore()
            run.copies.clear()
            self._guard.load_again(call.patchers)
            self._guard.reset_conditioning(model, conds())

        call = _Step(self, run, "doing_step", model.current_patcher, x.shape, do, as_at_first)
        return recover(call, self._options, run.plan)


class _Sampling(Call[Any]):
    """A sampling as a whole."""

    def __init__(
        self, own: _Guard, run: Run, doing: str, patcher: Any, shape: Sequence[int],
        do: Callable[[], Any], reset: Callable[[], None] = lambda: None,
    ) -> None:
        self._guard, self._options = own._guard, own._options
        self._run, self._patcher, self._shape, self._do = run, patcher, shape, do
        self._doing, self._reset = doing, reset
        self.key, self.device, self.batch = run.key, patcher.load_device, shape[0]

    @property
    def words(self) -> str:  # type: ignore[override]
        name = type(self._patcher.model).__name__
        return said(self._doing, _DOING[self._doing].format(model=name), model=name)

    @property
    def size(self) -> str:  # type: ignore[override]
        size: str = self._guard.picture_size(self._patcher.model, self._shape)
        return size

    @property
    def patchers(self) -> list[Any]:  # type: ignore[override]
        return self._run.in_use or [self._patcher]

    def run(self, plan: Plan) -> Any:
        self._run.plan = plan
        return self._do()

    def reset(self) -> None:
        self._reset()

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        """Loading failed, or will be done again: then it leaves more room."""
        if lack.where == "RAM" or plan.room_bytes >= weights.EVERYTHING:
            return None
        estimate = self._guard.estimated_bytes(self._patcher.model, self._shape)
        room = weights.EVERYTHING if plan.room_bytes else int(_MORE_ROOM * estimate)
        return replace(plan, room_bytes=room), None

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        if not self._options.split_batch:
            return None
        limit = self._run.fewer_rows(lack, self._guard.buffers_needed_bytes(self.patchers))
        return None if limit is None else replace(plan, parts=limit)

    def cut_words(self, plan: Plan) -> list[str]:
        if plan.parts is None:
            return []
        rows, limit = self._run.rows or self._run.expected, plan.parts
        if not rows:
            text = f"split the batch into pieces of at most {limit}"
            return [said("guard_split_again", text, limit=limit)]
        text = f"split the batch of {rows} into pieces of at most {limit}"
        return [said("guard_split", text, rows=rows, limit=limit)]

    def why_whole(self, plan: Plan, lack: Lack) -> list[str]:
        return self._run.why_whole() if self._options.split_batch and plan.parts is None else []


class _Loading(_Sampling):
    """Loading takes as much whatever the batch."""

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        return None

    def why_whole(self, plan: Plan, lack: Lack) -> list[str]:
        return []


class _Step(_Sampling):
    """One step: its models are loaded, and their weights can be offloaded beneath it."""

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        return Call.lighter(self, plan, lack)


def _kind(guider: Any, shape: Sequence[int], options: GuardOptions) -> Hashable:
    """Return what samplings have in common that need the same memory; before one begins."""
    conds = sum(len(entries) for entries in (getattr(guider, "conds", None) or {}).values())
    return "sampling", lessons.identity(guider.model_patcher), tuple(shape), options, conds


def _run_of(model_options: dict[str, Any] | None) -> Run:
    """Return the run that travels in the options; a fresh one outside a guarded sampling."""
    run = ((model_options or {}).get("transformer_options") or {}).get(KEY)
    return run if isinstance(run, Run) else Run()


def _copied(conds: Conds) -> Conds:
    """Copy the lists and dicts that ComfyUI fills in while it prepares the conditionings."""
    return {name: [dict(entry) for entry in entries] for name, entries in conds.items()}
