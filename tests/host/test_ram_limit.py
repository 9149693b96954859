"""A server in a group with a memory limit, as in a container: the kernel ends it, or models go."""

import os
import uuid
from pathlib import Path

import pytest
from support.prompts import node

from tools.models import (
    DEMO_CHECKPOINT,
    TEST_CHECKPOINT,
    TEST_CHECKPOINT_B,
    TEST_CHECKPOINT_FP16,
)
from tools.rescued import picture

pytestmark = pytest.mark.host

MIB = 1 << 20
LIMIT_MIB, FREE_MIB = 1600, 900  # beyond what it takes at its start; the four models take 1,850
ROOTS = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
         Path("/sys/fs/cgroup"): "memory.max"}
CHECKPOINTS = [Path(path).name for path in (
    TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_CHECKPOINT_FP16, DEMO_CHECKPOINT)]


@pytest.fixture(scope="module")
def group():
    """A group of our own with that limit: a folder, into which processes are put."""
    made = Path()
    try:
        root = next(root for root, file in ROOTS.items() if (root / file).exists()
                    or "memory" in (root / "cgroup.subtree_control").read_text().split())
        made = root / f"headroom-test-{uuid.uuid4().hex[:8]}"
        made.mkdir()
        (made / ROOTS[root]).write_text(str(LIMIT_MIB * MIB))
    except (OSError, StopIteration) as error:
        pytest.skip(f"no cgroup with a memory limit can be made here: {error!r}")
    yield made
    if made.is_dir():
        made.rmdir()


@pytest.fixture(scope="module")
def server(serve, group):
    """A server that keeps every model it has loaded, and may take so much more from now on."""
    server = serve("--cache-lru", "50", env={"HEADROOM_RAM_FREE_MIB": os.environ.get(
        "HEADROOM_RAM_FREE_MIB", str(FREE_MIB))})
    (group / "cgroup.procs").write_text(str(server.process.pid))
    yield server
    server.stop()


def with_checkpoint(name, seed):
    graph = picture(seed=seed)
    for one in graph.prompt.values():
        if "ckpt_name" in one["inputs"]:
            one["inputs"]["ckpt_name"] = name
    return graph.prompt


def test_more_models_than_the_limit_holds_live_on_disk_and_the_server_lives(server, group):
    client = server.client()
    for seed, name in enumerate([*CHECKPOINTS, CHECKPOINTS[0]]):
        client.run(with_checkpoint(name, seed))
    assert server.process.poll() is None and "went to disk" in server.log_text()
    assert str(server.process.pid) in (group / "cgroup.procs").read_text().split()


def test_a_prompt_that_takes_more_than_the_limit_is_stopped_and_the_queue_goes_on(server):
    client = server.client()
    grows = client.queue({"1": node("TimedGrow", seconds=0.0, salt=1, mib=2 * LIMIT_MIB)})
    after = client.queue({"1": node("TimedWork", seconds=0.0, salt=2)})
    messages = dict(client.wait(grows)["status"]["messages"])
    assert messages["execution_interrupted"]["node_id"] == "1"
    assert client.wait(after)["status"]["status_str"] == "success"
    actions = client.get_json(f"/headroom/runs/{grows}")["actions"]
    [stop] = [action for action in actions if action["action"] == "ram stop"]
    assert "RAM was about to run out in TimedGrow (node 1)" in stop["text"]
    assert server.process.poll() is None and stop["text"] in server.log_text()
