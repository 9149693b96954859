"""Guard a CLIP (text encoder): free memory, then stream its weights, then use the CPU."""

import functools
from dataclasses import replace
from typing import Any

from ..base.said import said
from ..host.adapter import current_host, guard_host
from ..models.unload import unload_models
from . import lessons, weights
from .attempt import is_recovering
from .call import Call, GuardOptions, Plan
from .copies import GuardedMethod, class_method, guarded_copy, plain_copy
from .lack import Lack
from .recover import recover
from .replay import Containers, RandomState


def guard_clip(clip: Any, options: GuardOptions) -> Any:
    """Return a guarded copy of a CLIP; weights and patcher are shared with the original."""
    own = {name: guard for name, guard in _METHODS.items() if hasattr(clip, name)}
    return guarded_copy(clip, own, options)


class _Clone(GuardedMethod):
    """LoRA loaders and others work on a clone that ComfyUI makes: the clone is guarded too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return guard_clip(self.unguarded(*args, **kwargs), self.options)


class _Encode(GuardedMethod):
    """`encode_from_tokens`, `encode_from_tokens_scheduled` and, in newer ComfyUIs, `generate`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_recovering():
            return self.unguarded(*args, **kwargs)
        return recover(_Encoding(self, args, kwargs), self.options)


_METHODS = {"clone": _Clone, "encode_from_tokens": _Encode,
            "encode_from_tokens_scheduled": _Encode, "generate": _Encode}


class _Encoding(Call[Any]):
    def __init__(self, method: GuardedMethod, args: Any, kwargs: dict[str, Any]) -> None:
        clip = method.owner
        self._method, self._clip, self._args, self._kwargs = method, clip, args, kwargs
        self._state, self._containers = RandomState(), Containers({"tokens": [args, kwargs]})
        self._began_bytes = 0  # of its weights on the GPU when the last attempt began
        self.patchers, self.device = [clip.patcher], clip.patcher.load_device
        tokens = kwargs.get("tokens", next(iter(args), None))
        length = _length(tokens)
        self._generates = method.name == "generate"
        self._draws = self._generates or _has_seed(tokens)
        what = ("generating", kwargs.get("max_length")) if self._generates else "encoding"
        # What another pack has set over a method: a clone of ComfyUI's would encode without it.
        self._is_replaced = not _METHODS.keys().isdisjoint(vars(plain_copy(clip)))
        self.key = (what, lessons.identity(clip.patcher), length, method.options, self._is_replaced)

    @property
    def words(self) -> str:  # type: ignore[override]
        return said("text generation with {model}" if self._generates else
                    "text encoding with {model}", model=type(self._clip.cond_stage_model).__name__)

    def run(self, plan: Plan) -> Any:
        clip, guard = None, guard_host()
        if guard is not None:
            guard.drop_caches(self.patchers)
        if plan.on_cpu:  # None: the plan came from another CLIP, which could
            clip = self._on_cpu
        elif plan.room_bytes and self._is_dynamic:
            unload_models(weights.found(self.patchers))
        elif plan.room_bytes and guard is not None:
            def load_little(*_args: Any, **_kwargs: Any) -> Any:
                guard.load_reserving(self.patchers, plan.room_bytes)
                return self._clip.patcher

            clip = plain_copy(self._clip)
            vars(clip)["load_model"] = load_little
        self._began_bytes = weights.loaded_bytes(self.patchers)
        if clip is None or self._method.own is not None:
            return self._method.unguarded(*self._args, **self._kwargs)
        return class_method(clip, self._method.name)(*self._args, **self._kwargs)

    def reset(self) -> None:
        """Encoders of ComfyUI take what they encode out of the tokens (SAM 3, Gemma 4)."""
        self._containers.restore()
        self._state.restore()

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        """Under dynamic VRAM: start again with none of its own weights on the GPU.

        The embedding is loaded first and is by far the largest layer. On an empty device it goes
        into pages, which make room for the layers after it. Where pages of an earlier encoding take
        that room, the embedding is streamed through a buffer, which keeps this size to the end
        (UMT5: 2,016 of 2,500 MiB).
        """
        if not self._is_dynamic:
            return super().lighter(plan, lack)
        is_most = lack.buffers_bytes * 2 > (lack.need_bytes or 0)
        if plan.room_bytes or not self._began_bytes or not is_most:
            return None
        return replace(plan, room_bytes=weights.EVERYTHING), lack.buffers_bytes

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        """Encode on the CPU, from RAM, where a single layer does not fit on the GPU.

        Text is not generated there: the CPU draws other random numbers.
        """
        is_off = not self._method.options.offload_weights or self._draws or self._is_replaced
        if is_off or plan.on_cpu or lack.where == "RAM" or self._on_cpu is None:
            return None
        return replace(plan, on_cpu=True)

    def cut_words(self, plan: Plan) -> list[str]:
        return [said("encoded on the CPU")] if plan.on_cpu else []

    @functools.cached_property
    def _on_cpu(self) -> Any | None:
        """A clone that encodes on the CPU; its weights may be read from their file again."""
        guard = guard_host()
        return None if guard is None else guard.clip_on_cpu(plain_copy(self._clip))

    @property
    def _is_dynamic(self) -> bool:
        host = current_host()
        return host is not None and host.is_dynamic(self._clip.patcher)


def _length(tokens: Any) -> int:
    """Return how many tokens an encoding has, as ComfyUI's tokenizers return them."""
    lists = tokens.values() if isinstance(tokens, dict) else ()
    return sum(len(part) for parts in lists if isinstance(parts, list)
               for part in parts if isinstance(part, list))


def _has_seed(tokens: Any) -> bool:
    """Return whether an encoding draws random numbers: for a song ComfyUI's encoders of ACE-Step
    1.5, which can go without, and MiniMax Music 3 generate what the model then follows."""
    if not isinstance(tokens, dict):
        return False
    drawn = tokens.get("lm_metadata", tokens)
    return "seed" in drawn and bool(drawn.get("generate_audio_codes", True))
