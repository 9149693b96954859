"""Frames of videos in RAM: a dry run writes to none of them, and gives what has their shape."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from support.comfyui import stand_in
from support.dry_pack import dry_part
from torch.utils._python_dispatch import TorchDispatchMode

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


@pytest.fixture
def dry(monkeypatch):
    """A function that does a part of a dry run to a module of ComfyUI with these contents.

    It does so twice, as before every prompt.
    """
    def do(name, path, *args, part="run", **contents):
        module = stand_in(monkeypatch, path, **contents)
        work = getattr(dry_part(part), name)
        work(*args)
        work(*args)
        return module

    return do


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


class Mode(TorchDispatchMode):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_tiles_are_run_in_the_modes_and_blended_outside_where_only_frames_are_left_out(dry):
    seen, left_out = [], []

    def blend(samples, function, tile):
        return function(samples).mul_(tile)

    comfy = dry("shorten_tiles", "comfy.utils", lambda: 0, lambda: Mode(left_out), part="once",
                tiled_scale_multidim=blend)
    for shape, outside in (((1, 2, 4), []), ((1, 2, 4, 4), [aten.mul_.Tensor])):
        samples = torch.ones(shape)
        with Mode(seen):
            made = comfy.tiled_scale_multidim(samples, torch.neg, tile=3)
        assert made.unique().tolist() == [-3.0]
        assert (seen[0], left_out) == (aten.neg.default, outside)
        assert aten.mul_.Tensor not in seen
        seen.clear()


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


@pytest.mark.parametrize(("weights_bytes", "expected"), [(0, 2), (64 << 20, 6)])
def test_a_tile_is_run_once_a_shape_unless_weights_are_copied_for_it(
    dry, weights_bytes, expected
):
    copied, run = [0], []

    def decode(tile):
        copied[0] += tile.nbytes + weights_bytes
        run.append(tile.shape)
        return tile.repeat_interleave(2, dim=-1).half()

    def blend(samples, function, tile):
        return [function(one) for size in (4, 2) for one in samples.split(size, dim=-1)]

    comfy = dry("shorten_tiles", "comfy.utils", lambda: copied[0], lambda: Mode([]), part="once",
                tiled_scale_multidim=blend)
    made = comfy.tiled_scale_multidim(torch.ones(1, 3, 8, 8), decode, tile=3)
    assert [(one.shape[-1], one.dtype) for one in made] == [
        (8, torch.float16)] * 2 + [(4, torch.float16)] * 4
    assert len(run) == expected
    comfy.tiled_scale_multidim(torch.ones(1, 3, 8, 8), decode, tile=3)
    assert len(run) == 2 * expected  # nothing is kept from one decode to the next


@pytest.mark.parametrize(("reads", "outside"), [(0, [False, True, False, True]), (1, [False] * 4)])
def test_models_of_a_class_that_reads_no_number_run_outside_of_the_mode_from_the_second_call_on(
    dry, reads, outside
):
    seen, read = [], []

    class Model:
        def __init__(self, part):
            self.diffusion_model = part

        def apply_model(self, x, sigma, context=None):
            seen.clear()
            read.extend([1] * reads)
            return x.neg()

    dry("run_unseen", "comfy.model_base", lambda: len(read), part="once", BaseModel=Model)
    found = []
    with Mode(seen):
        for part, values in ((1, {}), (1, {"context": None}), (1, {"context": 1}),
                             (2, {"context": 2}), ("another class", {})):
            Model(part).apply_model(torch.ones(1, 4), 1.0, **values)
            found.append(not seen)
    assert found == [*outside, False]


@pytest.mark.parametrize(("mask", "outside"), [(torch.float32, True), (torch.int64, False)])
def test_a_text_encoder_that_returns_integers_runs_inside_of_the_mode(dry, mask, outside):
    seen = []

    class Encoder:
        transformer = torch.nn.Identity()

        def forward(self, tokens):
            seen.clear()
            made = torch.ones(len(tokens), 4).neg()
            return made, None, {"attention_mask": made.to(mask)}

    dry("run_unseen", "comfy.sd1_clip", lambda: 0, part="once", SDClipModel=Encoder)
    with Mode(seen):
        Encoder().forward([[1, 2]])
        Encoder().forward([[3, 4]])
        assert (not seen) == outside
        Encoder().forward([[3, 4, 5]])
        assert seen  # of another length


def test_a_vae_runs_outside_of_the_mode_from_its_second_call_of_a_shape_on(dry):
    seen = []

    class Network:
        def decode(self, latents):
            seen.clear()
            return latents.neg()

    class VAE:
        def __init__(self, sd=None):
            self.first_stage_model = Network()

    dry("run_unseen", "comfy.sd", lambda: 0, part="once", VAE=VAE)
    with Mode(seen):
        VAE(sd={}).first_stage_model.decode(torch.ones(2))
        assert seen
        VAE().first_stage_model.decode(torch.ones(2))
        assert not seen


def test_files_are_read_and_weights_loaded_outside_of_the_mode_and_integers_noted(monkeypatch):
    seen, noted = [], []

    class Patcher:
        model = torch.nn.Module()

        def load(self, device):
            return self.model.places.neg()

    Patcher.model.register_buffer("places", torch.arange(3))
    utils = stand_in(monkeypatch, "comfy.utils", load_torch_file=lambda path: torch.ones(3).neg())
    stand_in(monkeypatch, "comfy.model_patcher", ModelPatcher=Patcher)
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", torch.nn.Module.load_state_dict)
    dry_part("once").load_unseen(noted.append)
    layer = torch.nn.Linear(2, 2)
    with Mode(seen):
        utils.load_torch_file("a file")
        layer.load_state_dict(layer.state_dict(keep_vars=True))
        assert Patcher().load("cuda").tolist() == [0, -1, -2]
        assert not [one for one in seen if "detach" not in str(one)]
    assert noted == [Patcher.model.places]


def test_sam_looks_at_one_frame_of_a_shape_in_each_node(dry):
    looked, node = [], [object()]

    class Model:
        def forward(self, frame, threshold=0.5):
            looked.append(frame.shape)
            return {"boxes": frame.new_ones(1, 4), "scores": [frame.half()], "count": 3}

    dry("look_at_one_frame", "comfy.ldm.sam3.detector", lambda: 0, lambda: node[0], part="once",
        SAM3Model=Model)
    made = [Model().forward(torch.zeros(1, side), threshold=0.4) for side in (8, 8, 4, 8)]
    assert [tuple(one) for one in looked] == [(1, 8), (1, 4)]
    assert made[3]["boxes"].shape == (1, 4) and made[3]["count"] == 3
    assert (made[3]["scores"][0].shape, made[3]["scores"][0].dtype) == ((1, 8), torch.float16)
    node[0] = object()
    Model().forward(torch.zeros(1, 8), threshold=0.4)
    assert len(looked) == 3
