"""Frames of videos in RAM: a dry run writes to none of them, and gives what has their shape."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from support.dry_pack import dry_part

aten = torch.ops.aten


@pytest.fixture(scope="module")
def uncomputed():
    made = dry_part("frames")
    return lambda func, *args, **kwargs: made.uncomputed(
        func, args, kwargs, [one for one in args if isinstance(one, torch.Tensor)])


@pytest.fixture(scope="module")
def frames():
    return torch.from_numpy(np.zeros((64, 1024, 1024), np.float32))  # nobody writes to them


def test_each_step_over_frames_gives_their_shape_and_type_and_an_inplace_one_the_same_memory(
    uncomputed, frames
):
    added = uncomputed(aten.add.Tensor, frames, torch.ones(1024))
    assert added.shape == frames.shape and added.data_ptr() != frames.data_ptr()
    assert uncomputed(aten._to_copy.default, frames, dtype=torch.float16).dtype == torch.float16
    assert uncomputed(aten.clamp_.default, frames, 0.0, 1.0) is frames
    assert uncomputed(aten.zero_.default, frames) is frames
    tile = frames[:1]
    assert uncomputed(aten.add_.Tensor, tile, torch.ones(1024)) is tile
    made = uncomputed(aten.ones.default, [64, 1024, 1024], dtype=torch.float16)
    assert (made.shape, made.dtype) == (frames.shape, torch.float16)
    assert not made.any()  # what an allocator gives again is not zeros
    grey = uncomputed(aten.full.default, [64, 1024, 1024], 0.5, dtype=torch.float32)
    picture = torch.ones(1024, 1024)
    assert grey.shape == uncomputed(aten.repeat.default, picture, [64, 1, 1]).shape == frames.shape
    resized = uncomputed(aten.upsample_bicubic2d.default, frames[None], [2048, 2048], False)
    assert resized.shape == (1, 64, 2048, 2048)


def test_small_tensors_and_integers_and_whole_reductions_are_computed(uncomputed, frames):
    assert uncomputed(aten.add.Tensor, torch.ones(4), torch.ones(4)) is None
    assert uncomputed(aten.sum.default, frames) is None
    assert uncomputed(aten.repeat.default, torch.ones(4), [64, 1]) is None
    assert uncomputed(aten.ones.default, [4]) is None
    assert uncomputed(aten.zeros.default, [64, 1024, 1024], device="meta") is None
    assert uncomputed(aten.zeros.default, [64, 1024, 1024], dtype=torch.int32) is None
    assert uncomputed(aten.bitwise_not.default, frames.view(torch.int32)) is None


@dataclass
class Components:
    images: torch.Tensor
    audio: object = "sound"


class Video:
    def __init__(self, components):
        self.components = components

    def get_components(self):
        return self.components

    def save_to(self, path, codec=""):
        return path, codec, tuple(self.components.images.shape[:3]), self.components.audio


def test_a_video_is_written_with_one_frame_and_no_sound_and_keeps_its_frames(dry, monkeypatch):
    monkeypatch.setattr(Video, "save_to", Video.save_to)  # given back afterwards
    dry("write_one_frame", "comfy_api.latest._input_impl.video_types", VideoFromComponents=Video)
    video = Video(Components(torch.zeros(81, 5, 4, 3)))  # no codec writes 5 lines
    assert video.save_to("a.mp4", codec="h264") == ("a.mp4", "h264", (1, 4, 4), None)
    assert len(video.components.images) == 81


def test_a_sound_is_written_with_its_first_second(dry):
    class Helper:
        @staticmethod
        def save_audio(audio, prefix, format="flac"):
            return tuple(audio["waveform"].shape), audio["sample_rate"], prefix, format

    dry("write_one_second", "comfy_api.latest._ui", AudioSaveHelper=Helper)
    sound = {"waveform": torch.zeros(1, 2, 441), "sample_rate": 44}
    assert Helper.save_audio(sound, "a", format="mp3") == ((1, 2, 44), 44, "a", "mp3")
    assert sound["waveform"].shape[-1] == 441


def test_lanczos_computes_small_pictures_only(dry, frames):
    comfy = dry("resize_no_frames", "comfy.utils", 128 << 20,
                lanczos=lambda samples, width, height: "resized")
    assert comfy.lanczos(torch.empty(1, 3, 8, 8), 16, 12) == "resized"
    assert comfy.lanczos(frames.view(64, 1, 1024, 1024), 16, 12).shape == (64, 1, 12, 16)


def test_masks_are_grown_unless_they_are_a_videos(dry, frames):
    class GrowMask:
        @classmethod
        def execute(cls, mask, expand, tapered_corners):
            return mask.shape, expand, tapered_corners

    dry("grow_no_frames", "/a/comfy_extras/nodes_mask", 128 << 20, GrowMask=GrowMask)
    one = torch.empty(1, 8, 8)
    assert GrowMask.execute(one, 6, tapered_corners=True) == (one.shape, 6, True)
    grow = GrowMask.execute.__func__  # as ComfyUI calls it
    assert grow(GrowMask, mask=frames, expand=6, tapered_corners=True) == (frames.shape, 0, True)


def test_pictures_are_resized_to_their_shape_only_and_masks_for_real(dry):
    def resize(samples, width, height, upscale_method, crop):
        return upscale_method, crop

    comfy = dry("resize_no_frames", "comfy.utils", 128 << 20, common_upscale=resize)
    pictures = torch.empty(2, 3, 1024, 1024)
    assert comfy.common_upscale(pictures, 16, 12, "area", crop="center").shape == (2, 3, 12, 16)
    assert comfy.common_upscale(pictures[:, :1], 16, 12, "area", "center") == ("area", "center")
    assert comfy.common_upscale(pictures[..., :8, :8], 16, 12, "area", "no") == ("area", "no")


def test_of_blended_frames_nothing_is_written_and_small_tensors_are_computed(frames):
    mode = dry_part("frames").Frames
    mask = torch.ones(4)
    with mode():
        whole = torch.zeros(frames.shape)
        assert frames[:1].add_(torch.ones(1024)).data_ptr() == frames.data_ptr()
        mask.narrow(0, 0, 1).mul_(0.5)
        made = torch.ones(4)
    assert whole.shape == frames.shape
    assert (mask.tolist(), made.tolist()) == ([0.5, 1.0, 1.0, 1.0], [1.0] * 4)
    assert not frames[:1].any()
