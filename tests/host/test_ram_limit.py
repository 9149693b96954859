"""A server in a group with a memory limit, as in a container: the kernel ends it, or models go."""

import os
from pathlib import Path

import pytest
from support.prompts import node

from headroom.base.cgroup import DROPPABLE
from headroom.base.device import MIB
from tools.errors import NotHere
from tools.graph import picture
from tools.memory_group import memory_group
from tools.models import DEMO_CHECKPOINT, TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_CHECKPOINT_FP16

pytestmark = pytest.mark.host

# Beyond what it takes at its start; the four models take 1,850.
LIMIT_MIB, FREE_MIB = 1700, 1050
CHECKPOINTS = [Path(path).name for path in (
    TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_CHECKPOINT_FP16, DEMO_CHECKPOINT)]


@pytest.fixture(scope="module")
def group():
    """A group of our own with that limit: a folder, into which processes are put."""
    try:
        with memory_group(LIMIT_MIB) as made:
            yield made
    except NotHere as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def server(serve, group):
    """A server that keeps every model it has loaded, and may take so much more from now on."""
    server = serve("--cache-lru", "50", env={"HEADROOM_RAM_FREE_MIB": os.environ.get(
        "HEADROOM_RAM_FREE_MIB", str(FREE_MIB))})
    (group / "cgroup.procs").write_text(str(server.process.pid))
    yield server
    server.stop()


def loads(name):
    """A prompt that has a checkpoint loaded, and keeps it in ComfyUI's cache."""
    return {"1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": name}},
            "2": node("TimedWork", seconds=0.0, salt=0, value=["1", 0])}


def test_more_models_than_the_limit_holds_live_on_disk_and_the_server_lives(server, group):
    client = server.client()
    for name in CHECKPOINTS:
        client.run(loads(name))  # however slowly it is read
    client.run(picture().prompt)  # with the first of them, from the disk
    assert server.process.poll() is None and "went to disk" in server.log_text()
    assert str(server.process.pid) in (group / "cgroup.procs").read_text().split()


def test_a_prompt_that_takes_more_than_the_limit_is_stopped_and_the_queue_goes_on(server):
    client = server.client()
    grows = client.queue({"1": node("TimedGrow", seconds=0.0, salt=1, mib=2 * LIMIT_MIB)})
    after = client.queue({"1": node("TimedWork", seconds=0.0, salt=2)})
    messages = dict(client.wait(grows)["status"]["messages"])
    assert messages["execution_interrupted"]["node_id"] == "1"
    assert client.wait(after)["status"]["status_str"] == "success"
    run = client.get_json(f"/headroom/runs/{grows}")
    assert run["failure"]["can_rescue"] and "RAM is freed first" in run["failure"]["text"]
    if (low := run["ram_low"]) is not None:  # it may have stopped before
        assert 0 < low["least_left_mib"] < 0.1 * low["total_mib"] <= 0.1 * LIMIT_MIB
        assert run["ram_held"]["models"]
    [stop] = [action for action in run["actions"] if action["action"] == "ram stop"]
    assert "RAM was about to run out in TimedGrow (node 1)" in stop["text"]
    assert server.process.poll() is None and stop["text"] in server.log_text()


def room_mib(group):
    """What processes in the group may still take, as the kernel counts it."""
    files = next(files for files in DROPPABLE if (group / files[0]).exists())
    limit, used = (int((group / file).read_text()) for file in files)
    counted = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return (limit - used + sum(int(counted[name]) for name in DROPPABLE[files])) // MIB


def test_a_prompt_that_was_stopped_runs_through_in_its_rerun_once_ram_is_emptied(server, group):
    client = server.client()
    for name in CHECKPOINTS:
        client.run(loads(name))
    client.run({"1": node("TimedWork", seconds=0.0, salt=3)})  # room is made before it
    stopped = client.queue({"1": node("TimedGrow", seconds=0.0, salt=4, mib=room_mib(group) + 50)},
                           extra_data={"headroom": {"rescue": True}})
    assert "execution_interrupted" in dict(client.wait(stopped)["status"]["messages"])
    first = client.get_json(f"/headroom/runs/{stopped}")
    assert client.wait(first["rescued_as"])["status"]["status_str"] == "success"
    assert client.get_json(f"/headroom/runs/{first['rescued_as']}")["rescued_from"] == stopped
