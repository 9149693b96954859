"""OOM Guard on VAEs of sound: ComfyUI takes some of their latents for pictures."""

import pytest
from support.oom import assert_same_bits, run_sweep

from tools.graph import Graph, add_guard

pytestmark = pytest.mark.host
CUT = ("Stable Audio", "ACE-Step")
ENCODE = pytest.mark.parametrize("encode", [False, True], ids=["decode", "encode"])


@pytest.fixture(params=["0.3.75", "newest"])
def gpu(request, sim):
    newest = request.param == "newest"
    tree = request.getfixturevalue("newest_comfyui") if newest else None
    return sim(2048, comfyui=tree)


def swept(gpu, kind, encode, **settings):
    graph = Graph()
    made = graph.add("OomSoundVAE", kind=kind)
    vae, latents = made[0], made[1]
    return run_sweep(gpu, graph, "OomSweepDecode", add_guard(graph, vae), vae,
                     latent=latents, encode=encode, **settings)


@ENCODE
@pytest.mark.parametrize("kind", [*CUT, "LTX", "MiniMax"])
def test_one_failed_allocation_anywhere_in_a_vae_of_sound_gives_the_same_bits(gpu, kind, encode):
    assert_same_bits(swept(gpu, kind, encode))


@ENCODE
@pytest.mark.parametrize("kind", CUT)
def test_sound_is_cut_along_its_time(gpu, kind, encode):
    answer = swept(gpu, kind, encode, first=2, stride=10_000, times=3)
    assert answer["problems"] == []
    assert any("of its length" in action for action in answer["actions"])
    assert answer["largest_difference"] < 1e-4 * answer["range"]


@ENCODE
@pytest.mark.parametrize("kind", ["LTX", "MiniMax"])
def test_sound_that_comfyui_takes_for_a_picture_is_not_cut(gpu, kind, encode):
    """The error stays the one of the GPU; a tile of the wrong shape would raise another."""
    answer = swept(gpu, kind, encode, first=2, stride=10_000, times=100)
    [[_, text]] = answer["problems"]
    assert text.startswith("OomGuardError")
    assert "tiles" not in text and "width" not in text
