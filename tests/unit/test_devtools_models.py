"""The small models: recipes, names and values."""

import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch to make weights")

from devtools import models, shapes_image, shapes_sd15  # noqa: E402


def parameters(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


def test_the_architectures_have_the_published_numbers_of_parameters():
    assert parameters(shapes_sd15.clip_l()) == 123_060_480
    assert parameters(shapes_image.vae()) == 83_653_863
    assert parameters(shapes_image.taesd_encoder()) == 1_222_532
    assert parameters(shapes_image.taesd_decoder()) == 1_222_531


def test_every_input_block_has_its_place_in_the_output_blocks():
    names = shapes_sd15.unet((1, 1))
    blocks = {kind: {n.split(".")[1] for n in names if n.startswith(kind)} for kind in ("in", "ou")}
    assert len(blocks["in"]) == len(blocks["ou"]) == 4


def test_a_controlnet_shares_the_trunk_of_its_unet():
    unet, control = shapes_sd15.unet((1, 1)), shapes_sd15.controlnet((1, 1))
    for name in unet:
        if name.startswith(("input_blocks", "middle_block", "time_embed")):
            assert control[name] == unet[name]


def test_a_lora_fits_the_layers_it_patches():
    unet, lora = shapes_sd15.unet((1,)), shapes_sd15.lora((1,), 4)
    name = "input_blocks.1.1.transformer_blocks.0.attn2.to_k"
    key = "lora_unet_" + name.replace(".", "_")
    assert (lora[f"{key}.lora_up.weight"][0], lora[f"{key}.lora_down.weight"][1]) == unet[
        f"{name}.weight"
    ]


def test_weights_are_the_same_bits_every_time_and_differ_between_seeds():
    one, two = (models.random_weight("a.weight", (8, 8), seed) for seed in (1, 2))
    assert torch.equal(one, models.random_weight("a.weight", (8, 8), 1))
    assert not torch.equal(one, two)


def test_files_appear_whole_and_are_made_once(tmp_path):
    paths = models.make_models(tmp_path, [models.DEMO_UPSCALER])
    path = paths[models.DEMO_UPSCALER]
    made = path.stat().st_mtime_ns
    models.make_models(tmp_path, [models.DEMO_UPSCALER])
    assert path.stat().st_mtime_ns == made
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_cache_folder_changes_with_the_recipes(monkeypatch):
    before = models.recipes_key()
    recipe = models.RECIPES[models.DEMO_LORA]
    monkeypatch.setitem(models.RECIPES, models.DEMO_LORA, models.Recipe(recipe.shapes, 99))
    assert models.recipes_key() != before
