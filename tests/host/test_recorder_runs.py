"""What the record of a run contains beside its times, and how many runs are kept."""

import pytest
from support.timed import assert_apart, node, own_times, record

from tools.graph import PURGE_DEFAULTS
from tools.waiting import wait_until

pytestmark = pytest.mark.host


def test_ram_that_a_node_takes_and_gives_back_shows_as_the_peak(client):
    run, nodes = record(client, client.run({"1": node("TimedMemory", 1.5, mib=256, keep=False)}))
    before = nodes["1"]["rss_before_mib"]
    assert run["peak_rss_mib"] >= before + 250
    assert nodes["1"]["rss_after_mib"] < before + 100
    assert nodes["1"]["vram_before_mib"] is None and run["peak_vram_mib"] is None
    assert run["device"] == "cpu"


def test_of_a_queue_of_two_hundred_prompts_all_are_counted_and_the_last_fifty_kept(client):

    def ended():
        lines = client.get_bytes("/headroom/metrics").decode().splitlines()
        counts = [line for line in lines if line.startswith("headroom_runs_total{")]
        assert all('outcome="success"' in line for line in counts if not line.endswith(" 0.0"))
        return sum(float(line.split()[-1]) for line in counts)

    before = ended()
    ids = [client.queue({"1": node("TimedWork", 0.0)}) for _ in range(200)]
    assert client.get("/headroom/ready")[0] == 200
    client.wait(ids[-1], timeout=300)
    wait_until(lambda: ended() - before >= 200)
    assert ended() - before == 200
    newest = [run["prompt_id"] for run in client.get_json("/headroom/runs")["runs"]]
    assert newest == ids[:-51:-1]
    assert client.get(f"/headroom/runs/{ids[0]}")[0] == 404


def test_after_the_idle_minutes_of_the_browsers_user_the_models_leave(client, cpu_server):
    path = "/settings/Headroom.Server.IdleMinutes"
    assert client.request("POST", path, 0.01)[0] == 200
    client.run({"1": node("TimedSlowModel", 0.0)})
    wait_until(lambda: "no prompt for 0.01 minutes: " in cpu_server.log_text())
    assert client.get_json("/headroom/memory")["models"] == []
    assert client.request("POST", path, 0)[0] == 200
    client.run({"1": node("TimedSlowModel", 0.0)})
    assert client.get_json("/headroom/memory")["models"] != []


def test_a_recovery_is_told_to_the_browser_once(client):
    with client.events("a-browser") as events:
        prompt_id = client.queue({"7": node("TimedNote")}, client_id="a-browser")
        seen = []
        while (event := events.receive(30)) is not None:
            seen.append(event)
            if event["type"] == "executing" and event["data"]["node"] is None:
                break
    client.wait(prompt_id)
    told = [event["data"] for event in seen if event["type"] == "headroom.oom"]
    assert [(item["node_id"], item["attempt"], item["recovered"]) for item in told] == [
        ("7", 2, True)
    ]
    assert told[0]["title"] == "TimedNote" and told[0]["prompt_id"] == prompt_id
    assert not [e for e in seen if e["type"].startswith("headroom") and e["type"] != "headroom.oom"]


def test_comfyui_keeps_its_own_progress_handler_and_registry(client):
    entry = client.run({"1": node("TimedRegistry")})
    told = own_times(entry)["1"][0]
    assert told["prompt_id"] == entry["prompt_id"]
    assert told["handlers"]["webui"] == "WebUIProgressHandler"


def test_hundreds_of_nodes_are_each_recorded_in_order(client):
    prompt = {"0": node("TimedWork", 0.0)}
    for index in range(1, 200):
        prompt[str(index)] = node("TimedWork", 0.0, value=[str(index - 1), 0])
    _, nodes = record(client, client.run(prompt))
    assert list(nodes) == [str(index) for index in range(200)]
    assert_apart(nodes.values())


def test_a_garbage_collection_amid_a_prompt_takes_nothing_of_ours_away(client, cpu_server):
    purge = {**PURGE_DEFAULTS, "value": ["2", 0], "unload": "no models", "run": "every time"}
    for _ in range(3):
        prompt = {"1": {"class_type": "HeadroomPurgeVRAM", "inputs": purge},
                  "2": node("TimedAsync")}  # the event loop turns before the purge
        record(client, client.run(prompt))
    assert "Task was destroyed" not in cpu_server.log_text()


def test_a_prompt_that_is_refused_leaves_no_record(client):
    before = client.get_json("/headroom/runs?limit=1")["runs"]
    refused = {"prompt": {"1": {"class_type": "NoSuchNode", "inputs": {}}}}
    status, _ = client.post_json("/prompt", refused)
    assert status == 400
    assert client.get_json("/headroom/runs?limit=1")["runs"] == before


def sees_all(client):
    """Whether a prompt is recorded from its first node on."""
    run, nodes = record(client, client.run({"1": node("TimedRegistry")}))
    return (run["status"] == "success" and nodes["1"]["status"] == "done"
            and nodes["1"]["start_seconds"] > 0)


def test_a_prompt_whose_registry_is_found_late_is_recorded_all_the_same(client):
    client.run({"1": node("TimedHold")})
    prompt = {"1": node("TimedAsync", 0.2), "2": node("TimedWork", value=["1", 0])}
    run, nodes = record(client, client.run(prompt))
    assert run["status"] == "success"
    assert {key: item["status"] for key, item in nodes.items()} == {"1": "done", "2": "done"}
    assert nodes["1"]["seconds"] >= 0.2
    assert sees_all(client)


def test_a_prompt_whose_handlers_are_being_told_of_a_node_gets_no_new_one(client):
    """A handler added meanwhile would end the prompt: their dictionary changes as it is walked."""
    client.run({"1": node("TimedHold")})
    entry = client.run({"1": node("TimedSlowly"), "2": node("TimedWork", value=["1", 0])})
    run, nodes = record(client, entry)
    assert run["status"] == "success" and run["seconds"] >= 0.6
    statuses = {key: item["status"] for key, item in nodes.items()}
    assert statuses in ({"1": "done", "2": "done"}, {})  # {}: this host's loop takes no turn
    assert sees_all(client)


@pytest.mark.parametrize("kind", ["TimedElsewhere", "TimedForgotten"])
def test_after_a_prompt_that_lost_its_registry_the_next_is_recorded(client, kind):
    lost, _ = record(client, client.run({"1": node(kind)}))
    assert lost["status"] == "success"
    assert sees_all(client)
    assert client.get("/headroom/runs/elsewhere")[0] == 404


def test_after_the_registry_was_lost_between_two_prompts_the_next_is_recorded(client, cpu_server):
    client.run({"1": node("TimedForgottenLater")})
    wait_until(lambda: "an idle server has no registry any more" in cpu_server.log_text())
    assert sees_all(client)
