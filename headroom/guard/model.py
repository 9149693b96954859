"""A MODEL under the OOM Guard: wrappers around loading, sampling, each step and each call.

A step that fails is repeated alone: completed steps are kept. What fails between the steps, in the
sampler's own arithmetic, starts the sampling again, with the same noise; so does a step in which
something of another pack takes part, which may keep what the failed step has left.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..base.said import said
from . import buffers_first
from .choose import RecoveryStep, bus_seconds, launch_seconds
from .controlnet import with_splitting_controls
from .explain import Subject
from .footprint import Measuring
from .forward import forward
from .ladder import Ladder, guarded, is_recovering
from .lessons import room_bytes
from .options import GuardOptions
from .remembered_run import learn_from, recall_into, sampling_kind
from .replay import Containers, RandomState
from .run import KEY, GuardedRun
from .run_steps import ReserveMore, SplitBatch
from .shortage import Shortage
from .steps import OffloadWeights, ReturnMemory, UnloadOthers, ladder_of, tidy

_DOING = {
    "doing_sampling": "sampling with {model}",
    "doing_loading": "loading {model} for sampling",
    "doing_step": "a step of sampling with {model}",
}
_LAUNCHES_PER_LAYER = 4  # of kernels, about: a layer, its activation, its norm, its residual

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
        """OUTER_SAMPLE: one sampling run; restarted only for failures between its steps."""
        guider = executor.class_obj
        self._guard.start_sampling(guider)
        run = GuardedRun()
        kind = sampling_kind(guider, noise.shape, self._options)
        room = room_bytes(guider.model_patcher.load_device)
        recall_into(run, kind, room)
        run.buffers = buffers_first.recall(kind, room)
        guider.model_options.setdefault("transformer_options", {})[KEY] = run
        state, containers = RandomState(), Containers(guider.model_options)

        def as_at_first() -> None:
            self._guard.end_sampling(guider)
            run.copies.clear()
            containers.restore()
            state.restore()

        def ladder() -> Ladder:
            split = [SplitBatch(run)] if self._options.split_batch else []
            steps = [*self._steps(run, ReserveMore(run)), *split]
            model = guider.model_patcher.model
            return self._ladder(steps, "doing_sampling", model, noise.shape, run, as_at_first)

        try:
            # What another pack keeps of a failed step cannot be taken back: all of it starts again.
            are_steps_ours = not self._guard.has_foreign_parts(guider, KEY)
            result = guarded(
                lambda: executor(noise, *args, **kwargs), ladder, is_outer=are_steps_ours
            )
            learn_from(run, kind, room)
            buffers_first.learn(self._guard, kind, guider.model_patcher, room)
            return result
        finally:
            run.end()

    def load(
        self, executor: Any, patcher: Any, shape: Sequence[int], conds: Conds, *args: Any,
        **kwargs: Any,
    ) -> Any:
        """PREPARE_SAMPLING: load the models; keeps more room for the computation at each retry."""
        run = _run_of(kwargs.get("model_options") or next(iter(args), None))
        # A restarted sampling would bring the conditionings that the first one has processed.
        conds = conds if run.conds is None else _copied(run.conds)
        run.conds = _copied(conds)
        run.in_use = [patcher, *self._guard.additional_models(patcher, conds)]

        if run.alone:
            self._unload_others(run).take(Shortage("device", patcher.load_device), 1)

        def load() -> Any:
            times = run.reserve_for(lambda: self._guard.estimated_bytes(patcher.model, shape))
            room = [math.ceil(shape[0] * times), *shape[1:]] if times > 1 else shape
            return executor(patcher, room, conds, *args, **kwargs)

        def ladder() -> Ladder:
            steps = self._steps(run, ReserveMore(run))
            return self._ladder(steps, "doing_loading", patcher.model, shape, run)

        loaded = guarded(load, ladder)
        run.in_use = [patcher, *loaded[2], *patcher.model_patches_models()]
        if run.keep_bytes:
            self._guard.make_room(run.in_use, run.keep_bytes)
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
            own = conds if run.limit is None else with_splitting_controls(conds, run)
            return executor(model, own, x, timestep, model_options, *args, **kwargs)

        if is_recovering():
            return call()
        return self._step(call, run, model, lambda: conds, x, model_options)

    def _step(
        self, call: Callable[[], Any], run: GuardedRun, model: Any, conds: Callable[[], list[Any]],
        x: torch.Tensor, options: dict[str, Any],
    ) -> Any:
        state, containers = RandomState(), Containers(options)
        weights = OffloadWeights(lambda: run.in_use)
        retries: list[Measuring] = []

        def as_at_first() -> None:
            retries[:] = [Measuring(x.device, buffers)]
            containers.restore()
            state.restore()
            run.copies.clear()
            self._guard.revive_dynamic(run.in_use)
            self._guard.reset_conditioning(model, conds())

        def buffers() -> int:
            return int(self._guard.buffers_needed_bytes(run.in_use))

        def load_anew() -> None:
            self._guard.load_anew(run.in_use)

        def ladder() -> Ladder:
            run.in_use = run.in_use or [model.current_patcher]
            def needs(rows: int) -> float:
                return float(self._guard.estimated_bytes(model, [rows, *x.shape[1:]]))

            split = SplitBatch(run, needs, lambda: self._piece_seconds(model), buffers)
            steps = [*self._steps(run, weights), *([split] if self._options.split_batch else [])]
            return self._ladder(
                steps, "doing_step", model, x.shape, run, as_at_first, load_anew
            )

        if run.begins_fresh:
            run.begins_fresh = False
            tidy()
            self._guard.revive_dynamic(run.in_use)

        def with_buffers() -> Any:
            sizes, run.buffers = run.buffers, ()
            if sizes:
                self._guard.make_buffers(x.device, sizes)
            return call()

        result = guarded(with_buffers, ladder)
        if retries:
            run.worked(retries[0].done())
        return result

    def _steps(self, run: GuardedRun, weights: RecoveryStep) -> list[RecoveryStep]:
        options = self._options
        steps: list[RecoveryStep] = [ReturnMemory()]
        if options.free_other_models:
            steps.append(self._unload_others(run))
        if options.offload_weights:
            steps.append(weights)
        return steps

    def _unload_others(self, run: GuardedRun) -> UnloadOthers:
        def taken() -> None:
            run.alone = True

        return UnloadOthers(lambda: run.in_use, taken)

    def _piece_seconds(self, model: Any) -> float:
        """Return what one more piece of a split call costs, by prediction."""
        layers = sum(1 for module in model.diffusion_model.modules() if not any(module.children()))
        streamed = self._guard.streamed_bytes(model.current_patcher)
        return launch_seconds(_LAUNCHES_PER_LAYER * layers) + bus_seconds(streamed)

    def _ladder(
        self, steps: Sequence[RecoveryStep], doing: str, model: Any, shape: Sequence[int],
        run: GuardedRun,
        before_retry: Callable[[], None] = lambda: None,
        repair: Callable[[], None] | None = None,
    ) -> Ladder:
        name = type(model).__name__
        subject = Subject(
            said(doing, _DOING[doing].format(model=name), model=name), self._options, shape[0],
            self._guard.picture_size(model, shape), list(run.in_use),
        )
        return ladder_of(subject, steps, before_retry, repair, run.lacked)


def _run_of(model_options: dict[str, Any] | None) -> GuardedRun:
    """Return the run that travels in the options; a fresh one outside a guarded sampling."""
    run = ((model_options or {}).get("transformer_options") or {}).get(KEY)
    return run if isinstance(run, GuardedRun) else GuardedRun()


def _copied(conds: Conds) -> Conds:
    """Copy the lists and dicts that ComfyUI fills in while it prepares the conditionings."""
    return {name: [dict(entry) for entry in entries] for name, entries in conds.items()}
