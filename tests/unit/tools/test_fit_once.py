"""What a dry run computes once of many alike, and what it runs outside of its mode."""

import pytest
import torch
from support.comfyui import stand_in
from support.dry_pack import dry_part
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


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
