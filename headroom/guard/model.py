"""A MODEL under the OOM Guard: wrappers around loading, sampling, each step and each call.

A step that fails is repeated alone: completed steps are kept. Only what fails between the steps,
in the sampler's own arithmetic, starts the sampling again, with the same noise.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..host.adapter import guard_host
from . import split_batch
from .controlnet import with_splitting_controls
from .explain import Subject
from .ladder import Ladder, RecoveryStep, guarded, is_recovering
from .options import GuardOptions
from .replay import Containers, RandomState
from .run import KEY, GuardedRun, ReserveMore, SplitBatch
from .split_batch import Piece, Unsplittable
from .steps import OffloadWeights, ReturnMemory, UnloadOthers, ladder_of

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
        run = GuardedRun()
        guider.model_options.setdefault("transformer_options", {})[KEY] = run
        state, containers = RandomState(), Containers(guider.model_options)

        def as_at_first() -> None:
            self._guard.end_sampling(guider)
            run.copies.clear()
            containers.restore()
            state.restore()

        def ladder() -> Ladder:
            steps = self._steps(run, [ReserveMore(run)])
            words = f"sampling with {type(guider.model_patcher.model).__name__}"
            return self._ladder(steps, words, noise.shape, run, as_at_first)

        try:
            return guarded(lambda: executor(noise, *args, **kwargs), ladder, is_outer=True)
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

        def load() -> Any:
            room = [shape[0] * run.reserve, *shape[1:]] if run.reserve > 1 else shape
            return executor(patcher, room, conds, *args, **kwargs)

        def ladder() -> Ladder:
            words = f"loading {type(patcher.model).__name__} for sampling"
            return self._ladder(self._steps(run, [ReserveMore(run)], False), words, shape, run)

        loaded = guarded(load, ladder)
        run.in_use = [patcher, *loaded[2], *patcher.model_patches_models()]
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

        def as_at_first() -> None:
            containers.restore()
            state.restore()
            run.copies.clear()
            self._guard.revive_dynamic(run.in_use)
            self._guard.reset_conditioning(model, conds())

        def load_anew() -> None:
            self._guard.load_anew(run.in_use)

        def ladder() -> Ladder:
            run.in_use = run.in_use or [model.current_patcher]
            words = f"a step of sampling with {type(model).__name__}"
            weights = [OffloadWeights(lambda: run.in_use, if_enough=True)]
            steps = self._steps(run, weights)
            if self._options.offload_weights:
                steps.append(OffloadWeights(lambda: run.in_use))
            return self._ladder(steps, words, x.shape, run, as_at_first, load_anew)

        return guarded(call, ladder)

    def _steps(
        self, run: GuardedRun, weights: Sequence[RecoveryStep], split: bool = True
    ) -> list[RecoveryStep]:
        options = self._options
        steps: list[RecoveryStep] = [ReturnMemory()]
        if options.free_other_models:
            steps.append(UnloadOthers(lambda: run.in_use))
        if options.offload_weights:
            steps.extend(weights)
        if options.split_batch and split:
            steps.append(SplitBatch(run))
        return steps

    def _ladder(
        self, steps: Sequence[RecoveryStep], words: str, shape: Sequence[int], run: GuardedRun,
        before_retry: Callable[[], None] = lambda: None,
        repair: Callable[[], None] | None = None,
    ) -> Ladder:
        size = "x".join(str(side) for side in reversed(shape[2:]))
        subject = Subject(
            words, self._options, shape[0], f"{size} in latent pixels", list(run.in_use)
        )
        return ladder_of(subject, steps, before_retry, repair)


def _run_of(model_options: dict[str, Any] | None) -> GuardedRun:
    """Return the run that travels in the options; a fresh one outside a guarded sampling."""
    run = ((model_options or {}).get("transformer_options") or {}).get(KEY)
    return run if isinstance(run, GuardedRun) else GuardedRun()


def _copied(conds: Conds) -> Conds:
    """Copy the lists and dicts that ComfyUI fills in while it prepares the conditionings."""
    return {name: [dict(entry) for entry in entries] for name, entries in conds.items()}


def forward(
    executor: Callable[..., Any], x: torch.Tensor, t: torch.Tensor, c_concat: Any = None,
    c_crossattn: Any = None, control: Any = None,
    transformer_options: dict[str, Any] | None = None, **kwargs: Any,
) -> Any:
    """APPLY_MODEL wrapper: run the call in pieces of the run's limit where that is sound.

    x: (batch, ...) with the joined conditionings' rows one after another. Without a limit the
    call goes through as it came.
    """
    options: dict[str, Any] = {} if transformer_options is None else transformer_options
    given = (x, t, c_concat, c_crossattn, control)
    run = options.get(KEY)
    if not isinstance(run, GuardedRun):
        return executor(*given, options, **kwargs)
    batch = x.shape[0]
    chunks = split_batch.chunks_of(batch, options)
    independent = _is_independent(executor, options, kwargs)
    smallest = 1 if independent else batch // chunks
    limit = max(run.limit or batch, smallest)
    if limit < batch and not _can_cut([*given, kwargs], batch):
        limit = smallest = batch
    run.saw(batch, smallest)
    if limit >= batch:
        return executor(*given, options, **kwargs)
    images = batch // chunks

    def piece(part: Piece) -> torch.Tensor:
        some, named = split_batch.rows_of((given, kwargs), part.start, part.stop, batch)
        own = split_batch.options_of(options, part, images)
        result: torch.Tensor = executor(*some, own, **named)
        return result

    return split_batch.run_in_pieces(
        split_batch.pieces(batch, chunks, limit, independent), batch, piece
    )


def _is_independent(
    executor: Any, options: dict[str, Any], kwargs: dict[str, Any]
) -> bool:
    guard = guard_host()
    if guard is None or guard.foreign_wrappers(options, KEY) or guard.is_injected(executor):
        return False
    return split_batch.images_are_independent(options, kwargs)


def _can_cut(values: Any, batch: int) -> bool:
    """Return whether every value has a batch dimension we know; cuts views, computes nothing."""
    try:
        split_batch.rows_of(values, 0, 1, batch)
    except Unsplittable:
        return False
    return True
