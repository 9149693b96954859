"""A server that is killed in a rerun: the next one repeats only what had not finished."""

import re
from pathlib import Path

import pytest
from support.oom import PACK
from support.rescue import RESCUE, pictures, pixels

from tools.client import cached_nodes
from tools.graph import picture
from tools.waiting import wait_until

pytestmark = pytest.mark.host
TURNS = Path(__file__).parent / "packs" / "headroom_turns"


@pytest.fixture
def start(newest_comfyui, models_dir, start_server):
    return lambda **env: start_server(newest_comfyui, packs=[PACK, TURNS], env=env,
                                      models_dir=models_dir)


def deadly(seed):
    """A picture whose latent passes a loop, and a node that fails once and kills once."""
    graph = picture(seed)
    decode = graph.prompt["decode"]["inputs"]
    start = graph.add("TheirLoop", "start", cache_iterations=True, value=decode["samples"])
    body = graph.add("Turn", "body", value=start)
    end = graph.add("TheirLoopEnd", "end", value=body)
    gave = graph.add("LoopGave", "gave", value=start, end=end)
    decode["samples"] = [graph.add("OomThenKills", "kills", value=gave, key="runs").id, 0]
    return graph.prompt


def test_after_a_kill_in_the_rerun_only_what_had_not_finished_runs_again(start, tmp_path):
    first = start()
    first.client().queue(deadly(1), extra_data=RESCUE)
    wait_until(lambda: first.process.poll() is not None, 120)
    first.stop(grace_seconds=0)
    kept = list((tmp_path / "user/__headroom/queue").rglob("*.safetensors"))
    assert kept, first.log_text()[-3000:]
    [rerun] = re.findall(r"again as ([0-9a-f-]{36}):", first.log_text())

    client = (second := start(HEADROOM_QUEUE="resume")).client()
    entry = client.wait(rerun)
    assert entry["status"]["status_str"] == "success", second.log_text()[-3000:]
    nodes = {one["node_id"]: one["cached"] for one in
             client.get_json(f"/headroom/runs/{rerun}")["nodes"]}
    ran = {name for name, cached in nodes.items() if not cached}
    assert {name for name in ran if not name.startswith("headroom-")} == {
        "1", "start", "gave", "kills", "decode", "save"}
    assert (tmp_path / "output/turns").read_bytes() == b"xxx"  # none of them a second time
    assert "sampler" in cached_nodes(entry)
    assert any(name.startswith("headroom-guard") for name in ran)
    wait_until(lambda: not list((tmp_path / "user/__headroom/queue").glob("*.outputs")), 60)

    assert client.get_json("/headroom/memory")["models"]
    client.free()
    wait_until(lambda: not client.get_json("/headroom/memory")["models"])  # it is taken up
    unfailed = client.run(picture(1).prompt)
    assert "sampler" not in cached_nodes(unfailed)
    assert pictures(client, unfailed) and pixels(client, unfailed) == pixels(client, entry)
