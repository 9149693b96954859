"""The small models: recipes, names and values."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch to make weights")

from tools import models  # noqa: E402


def test_weights_are_the_same_bits_every_time_and_differ_between_seeds():
    one, two = (models.random_weight("a.weight", (8, 8), seed) for seed in (1, 2))
    assert torch.equal(one, models.random_weight("a.weight", (8, 8), 1))
    assert not torch.equal(one, two)


def test_files_appear_whole_and_are_made_once(tmp_path, monkeypatch):
    told = {"body.0.weight": (16, 3, 3, 3)}
    monkeypatch.setattr(models, "read_shapes", lambda several, comfyui: [told for _ in several])
    paths = models.make_models(tmp_path, [models.DEMO_UPSCALER])
    path = paths[models.DEMO_UPSCALER]
    made = path.stat().st_mtime_ns
    models.make_models(tmp_path, [models.DEMO_UPSCALER])
    assert path.stat().st_mtime_ns == made
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_cache_folder_changes_with_the_recipes(monkeypatch):
    before = models.recipes_key()
    recipe = models.RECIPES[models.DEMO_LORA]
    monkeypatch.setitem(models.RECIPES, models.DEMO_LORA, models.Recipe(recipe.parts, 99))
    assert models.recipes_key() != before
