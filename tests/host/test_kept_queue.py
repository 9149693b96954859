"""A server is killed in a node: the next one knows which, and the queue runs to its end."""

import os
import signal

import pytest
from support.prompts import node

from tools.lab import PACKS
from tools.waiting import wait_until

pytestmark = pytest.mark.host
KEY = "auth_token_comfy_org"


@pytest.fixture
def start(comfyui, start_server):
    return lambda **env: start_server(comfyui, packs=[PACKS / "headroom_timed"], env=env)


def kill(server):
    os.kill(server.process.pid, signal.SIGKILL)
    server.stop(grace_seconds=0)


def waits(seconds, salt, title="Wait"):
    first = node("TimedWork", seconds=0.0, salt=salt)
    second = node("TimedWork", seconds=seconds, salt=salt, value=["1", 0])
    return {"1": first, "2": {**second, "_meta": {"title": title}}}


def runs(client, prompt_id, node_id):
    """Wait until a node has run for so long that it must have been noted."""
    def it_does():
        status, run = client.get(f"/headroom/runs/{prompt_id}")
        return status == 200 and any(one["node_id"] == node_id and one["seconds"] > 3
                                     for one in run["nodes"])
    wait_until(it_does, 120)


def test_after_a_kill_nothing_is_lost_and_what_ran_twice_is_asked_about(start, tmp_path):
    client = (first := start()).client()
    deadly = client.queue(waits(60, 1, "Slow Decode"), extra_data={KEY: "secret"})
    others = [client.queue(waits(0, salt)) for salt in (2, 3)]
    runs(client, deadly, "2")
    assert client.get_json("/headroom/queue")["prompts"] == []
    kill(first)

    second = start(HEADROOM_QUEUE="resume")
    client = second.client()
    for prompt_id in others:
        assert client.wait(prompt_id)["status"]["status_str"] == "success"
    log = second.log_text()
    assert f"The server ended while Slow Decode (node 2) of prompt {deadly} ran, with " in log
    assert "2 prompts had not run." in log
    runs(client, deadly, "2")  # once more, and last
    late = client.queue(waits(0, 4))
    kill(second)

    third = start(HEADROOM_QUEUE="resume")
    client = third.client()
    assert client.wait(late)["status"]["status_str"] == "success"
    left = client.get_json("/headroom/queue")
    assert left["prompts"] == [{"prompt_id": deadly, "was_running": True}]
    assert left["samples"][-1]["node_id"] == "2" and left["samples"][-1]["rss_mib"] > 0
    assert client.post_json("/headroom/queue", {"action": "everything"})[0] == 400
    status, answer = client.post_json("/headroom/queue", {"action": "queue again"})
    assert (status, answer) == (200, {"queued": [deadly], "refused": []})
    runs(client, deadly, "2")  # who asks for it gets it
    client.interrupt()
    client.wait(deadly)
    assert client.post_json("/headroom/queue", {"action": "discard"})[0] == 409
    kill(third)
    files = [path.read_bytes() for path in (tmp_path / "user/__headroom/queue").iterdir()]
    assert files and b"secret" not in b"".join(files)
