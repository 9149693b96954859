"""Guard a MODEL with wrappers around loading, sampling, each step and each call.

A step that fails is repeated alone: completed steps are kept. A failure between the steps, in the
sampler's own arithmetic, starts the sampling again with the same noise. So does each failure where
something may keep data of the failed step: code of another pack, or ComfyUI with several GPUs.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from . import lessons, weights
from .attempt import guarding, is_recovering
from .call import GuardOptions
from .controlnet import with_splitting_controls
from .errors import OomGuardError
from .recover import recover
from .replay import Containers, RandomState
from .run import KEY, Footprint, Run
from .sampling_call import Loading, Sampling, Step
from .split_batch import forward

Conds = dict[str, list[dict[str, Any]]]


def guard_model(patcher: Any, options: GuardOptions, guard: Any) -> Any:
    """Return a clone of a MODEL whose sampling recovers from out-of-memory errors.

    Guarding a guarded model, or a clone of one, replaces the guard. While nothing fails the results
    are the same, and a step costs 0.2 ms more of CPU time (`benchmarks/oom_overhead.py`, on a
    virtual machine with two cores).
    """
    own = _Guard(options, guard)
    wrappers = (own.sample, own.load, own.step, own.conditionings, forward)
    return guard.sampling.wrap_model(patcher, KEY, dict(zip(guard.WRAPPERS, wrappers, strict=True)))


class _Guard:
    """The wrappers that ComfyUI calls; `executor` calls the next wrapper or the original."""

    def __init__(self, options: GuardOptions, guard: Any) -> None:
        self._options = options
        self._guard = guard

    def sample(self, executor: Any, noise: Any, *args: Any, **kwargs: Any) -> Any:
        """OUTER_SAMPLE: one sampling run."""
        if _is_training():
            return executor(noise, *args, **kwargs)
        guider = executor.class_obj
        self._guard.sampling.start_sampling(guider)
        picture = (kwargs.get("latent_shapes") or [noise.shape])[0]
        run = Run(_kind(guider, noise.shape, self._options), picture, guider)
        guider.model_options.setdefault("transformer_options", {})[KEY] = run
        state, containers = RandomState(), Containers(guider.model_options)

        def reset() -> None:
            self._guard.sampling.end_sampling(guider)
            run.copies.clear()
            containers.restore()
            state.restore()

        call = Sampling(
            self._guard, self._options, run, guider.model_patcher, noise.shape,
            lambda: executor(noise, *args, **kwargs), reset)
        try:
            return recover(call, self._options, is_outer=True)
        except OomGuardError:
            self._guard.sampling.end_sampling(guider)
            raise
        finally:
            run.end()

    def load(
        self, executor: Any, patcher: Any, shape: Sequence[int], conds: Conds, *args: Any,
        **kwargs: Any,
    ) -> Any:
        """PREPARE_SAMPLING: load the models and leave the planned room to the computation."""
        run = _run_of(kwargs.get("model_options") or next(iter(args), None))
        # A restarted sampling would pass the conditionings that the first start has processed.
        conds = conds if run.conds is None else _copied(run.conds)
        run.conds = _copied(conds)
        beside: list[Any] = []
        if run.guider is not None:
            # Only now others have added what takes part in the steps.
            run.keeps_failed_steps = self._guard.sampling.keeps_failed_steps(run.guider, KEY)
            beside = self._guard.models_beside(run.guider)
        run.in_use = [patcher, *beside, *self._guard.sampling.additional_models(patcher, conds)]

        def load() -> Any:
            estimate = max(self._guard.sampling.estimated_bytes(patcher.model, shape), 1.0)
            hidden = weights.hidden_bytes(patcher)
            wanted = max(run.plan.room_bytes, estimate if hidden else 0) + hidden
            times = max(1.0, wanted / estimate)
            room = [math.ceil(shape[0] * times), *shape[1:]] if times > 1 else shape
            return executor(patcher, room, conds, *args, **kwargs)

        call = Loading(self._guard, self._options, run, patcher, shape, load)
        loaded = recover(call, self._options, run.plan)
        run.in_use = [patcher, *beside, *loaded[2], *patcher.model_patches_models()]
        if beside:  # more room for this model may have unloaded them
            self._guard.load_again(run.in_use)
        if beside or run.plan.room_bytes < weights.EVERYTHING:
            weights.make_room(run.in_use, run.plan.room_bytes)
        return loaded

    def step(
        self, executor: Any, x: torch.Tensor, timestep: Any,
        model_options: dict[str, Any] | None = None, *args: Any, **kwargs: Any,
    ) -> Any:
        """PREDICT_NOISE: one evaluation of the model; a call that failed is repeated."""
        guider = executor.class_obj
        options: dict[str, Any] = {} if model_options is None else model_options
        run = _run_of(options)
        run.start_step()
        if is_recovering() or _is_training():
            return executor(x, timestep, options, *args, **kwargs)
        if run.keeps_failed_steps:
            # Nobody can undo what others kept of a failed step: the whole sampling starts again.
            with guarding():
                return executor(x, timestep, options, *args, **kwargs)
        state, containers = RandomState(), Containers(options)
        caches = self._guard.sampling.empty_caches(options)
        footprints: list[Footprint] = []

        def reset() -> None:
            footprints[:] = [Footprint(x.device)]
            containers.restore()
            state.restore()
            run.copies.clear()
            for cache in caches:
                cache.free()
            self._guard.load_again(call.patchers)
            conds = list(getattr(guider, "conds", {}).values())
            self._guard.sampling.reset_conditioning(guider.inner_model, conds)

        call = Step(
            self._guard, self._options, run, guider.inner_model.current_patcher, x.shape,
            lambda: executor(x, timestep, options, *args, **kwargs), reset)
        result = recover(call, self._options, run.plan)
        if footprints and (taken := footprints[0].bytes()) is not None:
            streaming = self._guard.streaming
            to_come = streaming.buffers_needed_bytes(call.patchers) - streaming.buffers_bytes()
            if run.grow(taken[0], taken[1] - max(0, to_come)):
                lessons.amend(run.key, run.plan)
        return result

    def conditionings(
        self, executor: Any, model: Any, conds: list[Any], x: torch.Tensor, timestep: Any,
        model_options: dict[str, Any], *args: Any, **kwargs: Any,
    ) -> Any:
        """CALC_COND_BATCH: all conditionings of a step; ControlNets run in pieces with them."""
        run = _run_of(model_options)
        run.start_step(x.shape[0] * sum(len(cond or []) for cond in conds))
        own = conds if run.plan.parts is None else with_splitting_controls(conds, run)
        return executor(model, own, x, timestep, model_options, *args, **kwargs)


def _is_training() -> bool:
    """Return whether ComfyUI trains with this model, as Train LoRA does: what has been learned
    would be learned again in a repetition, and a batch in pieces has no gradients."""
    return torch.is_grad_enabled()


def _kind(guider: Any, shape: Sequence[int], options: GuardOptions) -> Hashable:
    """Return a key that is equal for samplings that need the same memory, before one begins."""
    conds = sum(len(entries) for entries in (getattr(guider, "conds", None) or {}).values())
    return "sampling", lessons.identity(guider.model_patcher), tuple(shape), options, conds


def _run_of(model_options: dict[str, Any] | None) -> Run:
    """Return the run that is stored in the options; a new one outside a guarded sampling."""
    run = ((model_options or {}).get("transformer_options") or {}).get(KEY)
    return run if isinstance(run, Run) else Run()


def _copied(conds: Conds) -> Conds:
    """Copy the lists and dicts that ComfyUI fills in while it prepares the conditionings."""
    return {name: [dict(entry) for entry in entries] for name, entries in conds.items()}
