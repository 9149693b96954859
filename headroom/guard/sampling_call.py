"""The guarded calls of a sampling: the whole of it, the loading of its models, and each step."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..base.said import said
from . import weights
from .call import Call, GuardOptions, Plan
from .lack import Lack
from .run import Run

_MORE_ROOM = 4  # times ComfyUI's estimate, after loading left too little room


class Sampling(Call[Any]):
    """A sampling as a whole."""

    def __init__(
        self, guard: Any, options: GuardOptions, run: Run, patcher: Any, shape: Sequence[int],
        do: Callable[[], Any], reset: Callable[[], None] = lambda: None,
    ) -> None:
        self._guard, self._options = guard, options
        self._run, self._patcher, self._shape, self._do = run, patcher, shape, do
        self._reset = reset
        self.key, self.device, self.batch = run.key, patcher.load_device, shape[0]
        self._picture = run.picture or shape
        self.is_video = len(self._picture) == 5 and self._picture[2] > 1

    @property
    def words(self) -> str:  # type: ignore[override]
        return self.doing(type(self._patcher.model).__name__)

    def doing(self, model: str) -> str:
        return said("sampling with {model}", model=model)

    @property
    def size(self) -> str:  # type: ignore[override]
        size: str = self._guard.sampling.picture_size(self._patcher.model, self._picture)
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
        """Let the models be loaded again with more room left."""
        if lack.where == "RAM" or plan.room_bytes >= weights.EVERYTHING:
            return None
        estimate = self._guard.sampling.estimated_bytes(self._patcher.model, self._shape)
        room = weights.EVERYTHING if plan.room_bytes else int(_MORE_ROOM * estimate)
        return replace(plan, room_bytes=room), None

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        if not self._options.split_batch:
            return None
        run, row = self._run, [1, *self._shape[1:]]
        limit = run.fewer_rows(lack, self._guard.streaming.buffers_needed_bytes(self.patchers),
                               self._guard.sampling.estimated_bytes(self._patcher.model, row))
        if limit is None:
            return None
        run.too_many = min(run.widest, run.too_many or run.widest)
        return replace(plan, parts=limit)

    def cut_words(self, plan: Plan) -> list[str]:
        if plan.parts is None:
            return []
        rows, limit = self._run.rows or self._run.expected, plan.parts
        if not rows:
            return [said("split the batch into pieces of at most {limit}", limit=limit)]
        return [said("split the batch of {rows} into pieces of at most {limit}", rows=rows,
                     limit=limit)]


class Loading(Sampling):
    """The loading of models: it needs the same memory for every batch size."""

    def doing(self, model: str) -> str:
        return said("loading {model} for sampling", model=model)

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        return None


class Step(Sampling):
    """One step: its models are loaded, and the next attempt can offload their weights."""

    def doing(self, model: str) -> str:
        return said("a step of sampling with {model}", model=model)

    def run(self, plan: Plan) -> Any:
        self._guard.streaming.make_buffers(self.patchers)
        return super().run(plan)

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        return Call.lighter(self, plan, lack)
