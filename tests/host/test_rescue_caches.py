"""A second life under every way in which ComfyUI keeps results."""

import pytest
from support.oom import PACK
from support.rescue import chain, told, written

from devtools.rescued import live, picture

pytestmark = pytest.mark.host


@pytest.fixture
def bare(sim):
    return sim(2048, "--cache-none", "--verbose", "ERROR", packs=(PACK,),
               env={"HEADROOM_RESCUE": "automatic"})


def test_without_a_cache_everything_runs_again_but_nothing_is_written_twice(bare):
    lives = live(bare.client, chain(fails=True), extra_data=None)
    assert lives.succeeded
    wrote = [written(bare.client, entry, "first") for entry in (lives.first, lives.second)]
    assert wrote in ([1, None], [None, 1])
    assert written(bare.client, lives.second, "last") == 1
    assert "everything runs again" in told(bare, lives.first_id)["failure"]["text"]


def test_without_a_cache_every_wire_is_guarded(bare):
    bare.arm_fault(above_bytes=100_000, times=1)
    lives = live(bare.client, picture(51).prompt, extra_data=None)
    bare.disarm()
    assert lives.succeeded and lives.second is not None
    guards = [node for node in told(bare, lives.second_id)["nodes"]
              if node["class_type"] == "HeadroomOOMGuard"]
    assert len(guards) == 3


@pytest.fixture(params=["--cache-lru 1", "--cache-ram 0.5"])
def keeping(request, sim, tree_with):
    words = request.param.split()
    return sim(2048, *words, packs=(PACK,), comfyui=tree_with(words[0]))


def test_where_results_are_kept_only_what_failed_or_had_not_run_runs_again(keeping):
    keeping.client.run(picture(61).prompt)
    keeping.arm_fault(above_bytes=100_000, times=1)
    lives = live(keeping.client, picture(62).prompt)
    keeping.disarm()
    assert (lives.failed, lives.succeeded) == ("sampler", True)
    ran = {node["node_id"] for node in told(keeping, lives.second_id)["nodes"]
           if not node["cached"]}
    assert {"1", "positive", "negative"} & ran == set()
    assert "everything runs again" not in told(keeping, lives.first_id)["failure"]["text"]
    lives = live(keeping.client, chain(fails=True))
    wrote = [written(keeping.client, entry, "first") for entry in (lives.first, lives.second)]
    assert lives.succeeded and wrote in ([1, None], [None, 1])
