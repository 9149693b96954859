"""What a dry run leaves out, and what it counts of what it leaves out."""

import importlib

import pytest
import torch
from support.comfyui import stand_in
from support.dry_pack import dry_part

from tools import dry_server, fit


def test_a_language_model_ends_its_text_early_dry_whatever_it_writes(monkeypatch):
    class BaseGenerate:
        def generate(self, embeds, max_length=256, stop_tokens=None):
            written = 1
            while written < max_length and 0 not in stop_tokens:
                written += 1
            return written, max_length

    def sample(ids, max_new_tokens=2048, eos_token_id=7):
        codes = []
        while len(codes) < max_new_tokens and not eos_token_id == 0:
            codes.append(0)
        return codes

    stand_in(monkeypatch, "comfy.text_encoders.llama", BaseGenerate=BaseGenerate)
    music = stand_in(monkeypatch, "comfy.text_encoders.ace15",
                     sample_manual_loop_no_classes=sample)
    dry = dry_part("run")
    dry.write_few_words()
    dry.write_few_words()  # before every prompt
    assert BaseGenerate().generate(None, 512, stop_tokens=[7]) == (dry.WORDS, 512)
    assert BaseGenerate().generate(None, max_length=2) == (2, 2)
    assert len(music.sample_manual_loop_no_classes([1])) == dry.WORDS - 1
    assert music.sample_manual_loop_no_classes([1], max_new_tokens=2) == [0, 0]


def test_a_dry_run_reads_no_weight_looks_for_no_holder_and_begins_without_lessons(monkeypatch):
    from headroom.cast import tensor
    from headroom.guard import lessons
    from headroom.measure.snapshot import snapshot
    from headroom.models.ram_held import SeldomHeld

    monkeypatch.setattr(tensor, "is_exact", tensor.is_exact)
    monkeypatch.setattr(SeldomHeld, "now", SeldomHeld.now)
    lessons.learn("a call", 4, 100, 50)
    dry = dry_part("run")
    dry.look_at_no_weight()
    dry.look_for_no_holder()
    dry.forget_lessons()
    assert SeldomHeld().now(snapshot()) is None
    assert tensor.is_exact(torch.float32, torch.bfloat16)
    assert lessons.recall("a call", 100) is None


def test_a_dry_mesh_is_made_of_a_corner_of_the_voxels(monkeypatch):
    seen = []
    module = stand_in(
        monkeypatch, "/a/comfy_extras/nodes_hunyuan3d", voxel_to_mesh_surfnet=lambda voxels,
        threshold: seen.append((voxels.shape, threshold)))
    dry = dry_part("run")
    dry.mesh_a_corner()
    dry.mesh_a_corner()  # before every prompt
    module.voxel_to_mesh_surfnet(torch.zeros(9, 9, 9), threshold=0.6)
    assert seen == [((2, 2, 2), 0.6)]


def test_shapes_are_read_of_layers_that_have_weights(monkeypatch):
    memory = stand_in(monkeypatch, "comfy.memory_management", aimdo_enabled=True)
    dry = dry_part("shapes")
    with dry.layers_with_weights():
        assert not memory.aimdo_enabled
    assert memory.aimdo_enabled


def test_a_comfyui_that_lacks_a_switch_which_is_off_still_names_a_models_weights(monkeypatch):
    class ModelParams:
        def __init__(self, width):
            self.width = width

    class Model(torch.nn.Linear):
        def __init__(self, device=None, **params):
            super().__init__(ModelParams(**params).width, 2, bias=False, device=device)

    monkeypatch.syspath_prepend(fit.ROOT / "tools")
    public = importlib.import_module("public_architectures")
    monkeypatch.setattr(public, "_ops", dict)
    stand_in(monkeypatch, "an_older_host", Model=Model, ModelParams=ModelParams)
    assert public.of_class("an_older_host:Model", '{"width": 3, "newer": false}') == {
        "weight": (2, 3)}
    with pytest.raises(TypeError, match="newer"):
        public.of_class("an_older_host:Model", '{"width": 3, "newer": true}')


@pytest.mark.parametrize(("told", "found"), [
    # Each step is told; a bar that stands still tells of none.
    ([(1, 4, 1640), (1, 4, 1640), (2, 4, 2140), (3, 4, 2640), (4, 4, 3141)],
     [1640, 500, 500, 501]),
    ([(1, 4, 1640), (4, 4, 3141)], [1640, 500, 500, 501]),  # what came too soon was left out
    ([(5, 20, 10), (1, 3, 12), (2, 3, 14), (6, 20, 15)], [10, 2, 2, 1]),  # a bar within a step
    ([(0.25, 1.0, 10), (0.5, 1.0, 14), (0.25, 1.0, 15)], [10, 4, 1]),  # one of fractions
])
def test_steps_that_comfyui_does_not_tell_are_counted_with_their_share(told, found):
    counted = []
    steps = dry_part("steps").Steps(counted, 0)
    for value, most, copied_bytes in told:
        steps.told(value, most, copied_bytes)
    assert counted == found


@pytest.mark.parametrize(("flags", "expected"), [
    ('"--disable-dynamic-vram" "--disable-pinned-memory"', ("--disable-pinned-memory",)),
    ('"--disable-pinned-memory"', ()),
    ('"--disable-cuda-graphs"', ("--disable-cuda-graphs",)),
])
def test_a_dry_server_pins_no_weights_and_records_no_graphs(tmp_path, flags, expected):
    (tmp_path / "comfy").mkdir()
    (tmp_path / "comfy" / "cli_args.py").write_text(flags)
    assert dry_server.needed_flags(tmp_path) == expected
