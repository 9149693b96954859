"""Every node runs on a real server of each ComfyUI here, and its log is quiet; on each Python."""

import json
import warnings
from pathlib import Path

import pytest
from support.everything import every_node, load_kept
from support.worlds import CAPACITY_MIB

ROOT = Path(__file__).resolve().parents[2]
WITNESS = Path(__file__).parent / "packs" / "headroom_witness"
NODES = json.loads((ROOT / "tests" / "contract.json").read_text("utf-8"))
ROUTES = ("memory", "runs", "runs/{}", "runs/{}/advice", "ready?free_mib=1", "metrics")
# A wrong setting, so that each run shows that what we cause in the log is seen.
WRONG = {"HEADROOM_IDLE_MINUTES": "soon"}


@pytest.fixture(params=["oldest on the CPU", "newest on the CPU", "newest with dynamic VRAM"])
def server(request, tmp_path, comfyui, serve):
    """A running server, and the file with what a file of ours caused in its log."""
    world, notes = request.param, tmp_path / "notes.jsonl"
    tree = comfyui if world.startswith("oldest") else request.getfixturevalue("newest_comfyui")
    given = {"packs": [WITNESS], "env": {"HEADROOM_WITNESS": str(notes), **WRONG}, "comfyui": tree}
    if world.endswith("the CPU"):
        return serve(**given), notes
    return request.getfixturevalue("fake")(CAPACITY_MIB, **given).server, notes


def test_every_node_runs_and_nothing_of_ours_is_warned_of_or_deprecated(server):
    running, notes = server
    client = running.client()
    graphs = every_node(), load_kept()[0]
    for graph in graphs:
        prompt_id = client.run(graph.prompt, timeout=300)["prompt_id"]
    kinds = {node["class_type"] for graph in graphs for node in graph.prompt.values()}
    assert NODES.keys() <= kinds
    for route in ROUTES:
        assert client.get_bytes(f"/headroom/{route.format(prompt_id)}")
    client.post_when_idle("/headroom/purge", {})
    first, *others = [json.loads(line) for line in notes.read_text("utf-8").splitlines()]
    assert "HEADROOM_IDLE_MINUTES" in first["text"]
    assert not others, "\n".join(map(str, others))


def test_no_file_of_ours_has_syntax_that_a_newer_python_warns_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for folder in ("headroom", "nodes", "farm", "tools"):
            for file in (ROOT / folder).rglob("*.py"):
                compile(file.read_text("utf-8"), file, "exec")
