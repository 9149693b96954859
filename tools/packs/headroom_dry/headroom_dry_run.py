"""Headroom in a dry run: nobody reads weights, which are zeros, and every run is the first."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from types import ModuleType
from typing import Any

from .headroom_dry_change import change_once
from .headroom_dry_frames import untouched

WORDS = 4  # that a language model writes
PICTURE_BYTES = 4 << 20  # a small picture takes no time


def look_at_no_weight() -> None:
    """Let Cast bf16 not read the zeros, which took up to two minutes: they fit every dtype."""
    for module in _parts("cast.tensor"):
        module.is_exact = _always  # type: ignore[attr-defined]


def look_for_no_holder() -> None:
    """Let no record say who holds RAM: looking takes a third of a second, and this RAM is no one's.
    """
    for module in _parts("models.ram_held"):
        module.SeldomHeld.now = _unknown  # type: ignore[attr-defined]


def forget_lessons() -> None:
    """Let OOM Guard begin as in a server that has just been started."""
    for module in _parts("guard.lessons"):
        module.forget_all()


def write_few_words() -> None:
    """Let a language model end its text early: each further word takes what the first ones took.

    What it keeps of all words (its cache) is as large as for the length that was asked for.
    """
    kind = getattr(sys.modules.get("comfy.text_encoders.llama"), "BaseGenerate", None)
    _end_with(kind, "generate", "stop_tokens", _AfterFew)
    music = sys.modules.get("comfy.text_encoders.ace15")
    _end_with(music, "sample_manual_loop_no_classes", "eos_token_id", _EndAfterFew)


def write_one_frame() -> None:
    """Let a video be written with its first frame only, and without its sound: it is silence."""
    module = sys.modules.get("comfy_api.latest._input_impl.video_types")

    def shortened(write: Any, video: Any, *args: Any, **kwargs: Any) -> Any:
        whole = video.get_components()
        height, width = (side // 2 * 2 for side in whole.images.shape[1:3])  # the codec wants that
        short = replace(whole, images=whole.images[:1, :height, :width], audio=None)
        return write(type(video)(short), *args, **kwargs)

    change_once(getattr(module, "VideoFromComponents", None), "save_to", shortened)


def write_one_second() -> None:
    """Let a sound be written with its first second only."""
    def shortened(write: Any, audio: Any, *args: Any, **kwargs: Any) -> Any:
        second = audio["waveform"][..., : audio["sample_rate"]]
        return write({**audio, "waveform": second}, *args, **kwargs)

    module = sys.modules.get("comfy_api.latest._ui")
    change_once(getattr(module, "AudioSaveHelper", None), "save_audio", shortened, staticmethod)


def resize_no_frames(large_bytes: int) -> None:
    """Let Lanczos, which reads each picture, and all ways to resize pictures of three colours in
    RAM return zeros that take no RAM. Masks, by which nodes can count, are resized.
    """
    def shaped(resize: Any, samples: Any, width: int, height: int) -> Any:
        if samples.nbytes < large_bytes:
            return resize(samples, width, height)
        return untouched(samples.new_empty((*samples.shape[:2], height, width), device="meta"))

    def picture(resize: Any, samples: Any, width: int, height: int, *how: Any, **named: Any) -> Any:
        is_picture = samples.is_cpu and samples.ndim > 3 and samples.shape[1] == 3
        if not is_picture or samples.nbytes < PICTURE_BYTES:
            return resize(samples, width, height, *how, **named)
        return untouched(samples.new_empty((*samples.shape[:-2], height, width), device="meta"))

    change_once(sys.modules.get("comfy.utils"), "lanczos", shaped)
    change_once(sys.modules.get("comfy.utils"), "common_upscale", picture)


def grow_no_frames(large_bytes: int) -> None:
    """Let the masks of a video stay as they are: SciPy grows each by itself, a pixel at a time."""
    def shaped(grow: Any, _kind: Any, mask: Any, expand: int, *args: Any, **kwargs: Any) -> Any:
        return grow(mask, 0 if mask.nbytes >= large_bytes else expand, *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.endswith("comfy_extras/nodes_mask"):
            change_once(module.GrowMask, "execute", shaped, classmethod)


def assume_a_lens() -> None:
    """Let MoGe find a shift of 0 and a focal length of 1; SciPy solves for no points that are none.
    """
    module = sys.modules.get("comfy.ldm.moge.geometry")
    if hasattr(module, "_solve_optimal_shift"):
        module._solve_optimal_shift = lambda *_points, **_focal: (0.0, 1.0)  # type: ignore[union-attr]


def mesh_a_corner() -> None:
    """Let a mesh be made of a corner of the voxels: for all, positions alone take 4 GiB of RAM."""
    def shortened(function: Any, voxels: Any, *args: Any, **kwargs: Any) -> Any:
        return function(voxels[:2, :2, :2], *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.endswith("comfy_extras/nodes_hunyuan3d"):  # by its path, as ComfyUI imports it
            for function in ("voxel_to_mesh", "voxel_to_mesh_surfnet"):
                change_once(module, function, shortened)


def _end_with(owner: Any, name: str, parameter: str, end: Any) -> None:
    """Let a function get `end(argument)` for the argument that marks the end of a text."""
    def shortened(function: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        if parameter in given.arguments:
            given.arguments[parameter] = end(given.arguments[parameter])
        return function(*given.args, **given.kwargs)

    change_once(owner, name, shortened)


class _AfterFew(list[int]):
    """Tokens that end a text, of which every one is, once WORDS have been written."""

    def __init__(self, _tokens: object) -> None:
        super().__init__()
        self.asked = 0

    def __contains__(self, _token: object) -> bool:
        self.asked += 1
        return self.asked >= WORDS


class _EndAfterFew(int):
    """The token that ends a text, which every token equals once WORDS have been compared."""

    asked = 0

    def __eq__(self, _token: object) -> bool:
        self.asked += 1
        return self.asked >= WORDS

    __hash__ = int.__hash__


def _parts(name: str) -> Iterator[ModuleType]:
    """The pack's module of that name; ComfyUI imports packs under their paths."""
    for full, module in list(sys.modules.items()):
        if full.endswith(f"headroom.{name}"):
            yield module


def _always(_source: object, _target: object) -> bool:
    return True


def _unknown(_held: object, _now: object) -> None:
    return None
