"""Servers in a group with a memory limit: the kernel ends them, or the prompt is stopped in time.

The first case twice in one folder: without HEADROOM_RAM_FREE_MIB the server is killed and leaves
its queue; the next one, as it is by itself, queues that again, stops the prompt and goes on.
"""

import signal
from pathlib import Path

import pytest
from support.prompts import node

from tools.client import was_interrupted
from tools.errors import NotHere
from tools.lab import PACKS
from tools.memory_group import memory_group
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_CHECKPOINT_FP16

pytestmark = pytest.mark.host
LIMIT_MIB = 600  # a start takes 100 of them, beside what all servers share
FILLED_MIB = 600


def decoding(vae, latent, decode):
    """A real decode that takes more than the room, over five seconds."""
    return {"1": node(vae), "2": latent,
            "3": {**node(decode, samples=["2", 0], vae=["1", 0]), "_meta": {"title": "Fills"}},
            "4": node("TimedWork", seconds=0.0, salt=1, value=["3", 0])}


FRAMES = decoding("TimedVideoVAE", node("EmptyHunyuanLatentVideo", width=256, height=256,
                                        length=4 * FILLED_MIB // 3, batch_size=1), "VAEDecode")
SOUND = decoding("TimedAudioVAE", node("EmptyLatentAudio", seconds=900.0, batch_size=2),
                 "VAEDecodeAudio")
MODELS = [{"1": node("CheckpointLoaderSimple", ckpt_name=Path(path).name),
           "2": node("TimedKeep", seconds=0.0, salt=1, value=["1", 0])}
          for path in (TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_CHECKPOINT_FP16)]
QUICK = {"1": node("TimedWork", seconds=0.0, salt=2)}
STOPPED = "RAM was about to run out in Fills (node 3)"
SHARED = {"simulate_mib": 8192, "env": {"SIMGPU_SHARES_RAM": "1"}}  # a GPU without own memory
CASES = {  # the prompts, how the server is started, what its log says then
    "sound --cache-lru": ([SOUND], ["--cache-lru", "50"], {}, STOPPED),
    "frames --gpu-only in unified memory": ([FRAMES], ["--gpu-only"], SHARED, STOPPED),
    "models --high-ram": (MODELS, ["--high-ram"], {}, "1 idle model went to disk"),
}


@pytest.fixture
def start(tree_with, models_dir, start_server, servers):
    """A function that starts a server within the limit, in the one folder of this test."""

    def start(group, args, options, **env):
        def in_group(*call, **more):
            process = servers.start_process(*call, **more)
            (group / "cgroup.procs").write_text(str(process.pid))
            return process

        options = {**options, "env": {"OMP_NUM_THREADS": "1", **options.get("env", {}), **env}}
        return start_server(tree_with(args[0]), packs=[PACKS / "headroom_timed"], args=args,
                            models_dir=models_dir, start_with=in_group, **options)

    return start


@pytest.fixture
def group():
    """A group of our own with the limit: a folder, into which processes are put."""
    try:
        with memory_group(LIMIT_MIB) as made:
            yield made
    except NotHere as reason:
        pytest.skip(f"the watch itself is tested on recorded figures in unit/api: {reason}")


def test_without_our_stop_the_kernel_ends_the_server_and_the_next_one_stops_what_had_filled_ram(
    group, start
):
    first = start(group, ["--cache-none"], {}, HEADROOM_RAM_FREE_MIB="0")
    process, client = first.process, first.client()
    filling, after = client.queue(FRAMES), client.queue(QUICK)
    assert process.wait(120) == -signal.SIGKILL and kills(group) == 1

    second = start(group, ["--cache-none"], {}, HEADROOM_QUEUE="resume")
    client = second.client()
    assert client.wait(after)["status"]["status_str"] == "success"
    assert was_interrupted(client.wait(filling))  # what ran comes last
    assert STOPPED in second.log_text() and client.get_json("/headroom/queue")["prompts"] == []
    assert client.run(QUICK)
    assert second.process.poll() is None and kills(group) == 1


@pytest.mark.parametrize("case", CASES)
def test_a_prompt_that_fills_ram_costs_neither_the_server_nor_another_prompt(group, start, case):
    prompts, args, options, says = CASES[case]
    server = start(group, args, options)
    client = server.client()
    filling = [client.queue(prompt) for prompt in prompts]
    after = client.queue(QUICK)
    left = [client.wait(prompt_id) for prompt_id in filling]
    assert {was_interrupted(entry) for entry in left} == {says is STOPPED}
    assert client.wait(after)["status"]["status_str"] == "success"
    assert server.process.poll() is None and kills(group) == 0
    assert says in server.log_text()


def kills(group):
    """How many processes of the group the kernel has ended."""
    file = next(group / name for name in ("memory.events", "memory.oom_control")
                if (group / name).exists())
    return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])
