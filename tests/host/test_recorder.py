"""Every prompt is recorded, node by node, by a real server.

The test nodes tell by their own clock when they ran. No speed is tested: a span must hold the time
that the node itself saw, and spans of nodes that cannot overlap must not.
"""

import itertools
import json
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.host
PACK = Path(__file__).parent / "packs" / "headroom_timed"
SALT = itertools.count(1)


@pytest.fixture(scope="module", params=["default", "--cache-none"])
def server(serve, request):
    flags = [] if request.param == "default" else [request.param]
    return serve(*flags, packs=(PACK,))


@pytest.fixture(scope="module")
def plain(serve):
    return serve(packs=(PACK,))


def node(class_type, seconds=0.02, /, **inputs):
    return {"class_type": class_type, "inputs": {"seconds": seconds, "salt": next(SALT), **inputs}}


def record(client, entry_or_id):
    prompt_id = entry_or_id if isinstance(entry_or_id, str) else entry_or_id["prompt_id"]
    found = client.get_json(f"/headroom/runs/{prompt_id}")
    return found, {item["node_id"]: item for item in found["nodes"]}


def own_times(entry):
    """When each node ran by its own clock, in the seconds of time.time()."""
    texts = {key: output["text"] for key, output in entry["outputs"].items() if "text" in output}
    return {key: [json.loads(text) for text in found] for key, found in texts.items()}


def span_in_wall_time(run, item, index=0):
    start, end = item["spans"][index]
    return run["started_at"] + start, run["started_at"] + end


def assert_holds(run, item, own, slack=0.002):
    """The recorded span holds what the node saw; the two clocks differ by their resolution."""
    start, end = span_in_wall_time(run, item)
    assert start - slack <= own["began"] and own["ended"] <= end + slack


def assert_apart(items):
    """Spans of nodes that run one at a time do not overlap."""
    spans = sorted(tuple(span) for item in items for span in item["spans"])
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


@pytest.mark.parametrize("client_id", [None, "somebody"])
def test_a_run_is_recorded_with_and_without_a_client(server, client_id):
    client = server.client()
    prompt = {"1": node("TimedWork"), "2": node("TimedWork", value=["1", 0])}
    entry = client.run(prompt, client_id=client_id)
    run, nodes = record(client, entry)
    own = own_times(entry)
    assert run["status"] == "success" and run["prompt_id"] == entry["prompt_id"]
    assert list(nodes) == ["1", "2"]
    assert [item["status"] for item in nodes.values()] == ["done", "done"]
    for node_id, item in nodes.items():
        assert_holds(run, item, own[node_id][0])
        assert item["seconds"] >= 0.02
    assert_apart(nodes.values())
    assert run["seconds"] >= nodes["2"]["spans"][0][1]


def test_the_very_first_node_of_a_prompt_is_seen_to_begin(server):
    client = server.client()
    for _ in range(5):
        entry = client.run({"1": node("TimedWork")})
        run, nodes = record(client, entry)
        assert_holds(run, nodes["1"], own_times(entry)["1"][0])
        assert nodes["1"]["start_seconds"] > 0


def test_cached_nodes_are_recorded_even_when_the_executor_never_looks_at_them(plain):
    client = plain.client()
    prompt = {
        "1": node("TimedWork"), "2": node("TimedWork", value=["1", 0]),
        "3": node("TimedWork", value=["2", 0]),
    }
    client.run(prompt)
    prompt["3"] = node("TimedWork", value=["2", 0])
    run, nodes = record(client, client.run(prompt))
    assert {key: item["cached"] for key, item in nodes.items()} == {
        "1": True, "2": True, "3": False,
    }
    assert list(nodes)[0] == "3"
    assert nodes["1"]["seconds"] == 0 and nodes["1"]["status"] == "cached"
    assert nodes["1"]["class_type"] == "TimedWork"
    run, nodes = record(client, client.run(prompt))
    assert all(item["cached"] for item in nodes.values()) and len(nodes) == 3


def test_a_node_has_the_title_that_its_user_gave_it(plain):
    client = plain.client()
    prompt = {"1": {**node("TimedWork"), "_meta": {"title": "My favourite node"}},
              "2": node("TimedWork", value=["1", 0]),
              "3": {"class_type": "PreviewAny", "inputs": {"source": ["2", 0]}}}
    _, nodes = record(client, client.run(prompt))
    assert nodes["1"]["title"] == "My favourite node"
    assert nodes["2"]["title"] == "TimedWork"
    assert nodes["3"]["title"] == client.get_json("/object_info/PreviewAny")["PreviewAny"][
        "display_name"
    ]


def test_nodes_made_by_expansion_belong_to_the_node_on_the_canvas(server):
    client = server.client()
    entry = client.run({"1": node("TimedExpand", count=3, kind="TimedWork"),
                        "2": node("TimedWork", value=["1", 0])})
    run, nodes = record(client, entry)
    made = [item for key, item in nodes.items() if item["parent_node_id"] is not None]
    assert len(made) == 3
    assert {item["display_node_id"] for item in made} == {"1"}
    assert {item["parent_node_id"] for item in made} == {"1"}
    assert all(item["status"] == "done" for item in nodes.values())
    own = own_times(entry)
    for item in made:
        assert_holds(run, item, own[item["node_id"]][0])
    # The time of the nodes it made is not counted twice.
    assert_apart(nodes.values())


def test_a_loop_by_expansion_is_recorded_turn_by_turn(server):
    client = server.client()
    _, nodes = record(client, client.run({"1": node("TimedLoop", turns=4)}))
    assert sum(item["class_type"] == "TimedWork" for item in nodes.values()) == 4
    assert sum(item["class_type"] == "TimedLoop" for item in nodes.values()) == 4
    assert {item["display_node_id"] for item in nodes.values()} == {"1"}
    assert all(item["status"] == "done" for item in nodes.values())
    assert_apart(nodes.values())


def test_a_list_is_one_span_of_the_node_that_ran_for_each_item(server):
    client = server.client()
    entry = client.run({"1": node("TimedList"), "2": node("TimedWork", 0.01, value=["1", 0])})
    run, nodes = record(client, entry)
    own = own_times(entry)["2"]
    assert len(own) == 4 and len(nodes["2"]["spans"]) == 1
    assert_holds(run, nodes["2"], {"began": own[0]["began"], "ended": own[-1]["ended"]})


def test_async_nodes_overlap_and_keep_their_own_time(server):
    client = server.client()
    entry = client.run({
        "1": node("TimedAsync", 0.2), "2": node("TimedAsync", 0.2),
        "3": node("TimedWork", 0.05),
    })
    run, nodes = record(client, entry)
    own = own_times(entry)
    for node_id in "123":
        assert nodes[node_id]["status"] == "done" and len(nodes[node_id]["spans"]) == 1
        assert_holds(run, nodes[node_id], own[node_id][0])
    first, second = nodes["1"]["spans"][0], nodes["2"]["spans"][0]
    assert max(first[0], second[0]) < min(first[1], second[1])


@pytest.mark.parametrize("kind", ["TimedLazy", "TimedLazyAsync"])
def test_a_lazy_node_is_not_charged_for_the_nodes_it_waits_for(server, kind):
    client = server.client()
    entry = client.run({"1": node("TimedWork", 0.3), "2": node(kind, 0.02, value=["1", 0])})
    run, nodes = record(client, entry)
    own = own_times(entry)["2"][0]
    assert len(nodes["2"]["spans"]) == 2
    start, end = span_in_wall_time(run, nodes["2"], 1)
    assert start - 0.002 <= own["began"] and own["ended"] <= end + 0.002
    assert_apart(nodes.values())


@pytest.mark.parametrize("kind", ["TimedFail", "TimedAsyncFail"])
def test_a_failure_is_recorded_with_the_node_that_raised(server, kind):
    client = server.client()
    prompt_id = client.queue({
        "1": node("TimedWork"), "2": node(kind, 0.05, value=["1", 0]),
        "3": node("TimedWork", value=["2", 0]),
    })
    client.wait(prompt_id)
    run, nodes = record(client, prompt_id)
    assert run["status"] == "error"
    assert {key: item["status"] for key, item in nodes.items()} == {"1": "done", "2": "failed"}
    assert nodes["2"]["seconds"] >= 0.05


def test_a_failure_inside_an_expansion_is_recorded(server):
    client = server.client()
    prompt_id = client.queue({"1": node("TimedExpand", count=1, kind="TimedFail")})
    client.wait(prompt_id)
    run, nodes = record(client, prompt_id)
    assert run["status"] == "error"
    assert [item["status"] for item in nodes.values()] == ["failed", "failed"]


def test_an_interrupt_is_recorded_and_the_next_run_too(server):
    client = server.client()
    prompt_id = client.queue({"1": node("TimedWork"), "2": node("TimedWork", 30, value=["1", 0])})
    wait_until(lambda: "2" in nodes_so_far(client, prompt_id))
    client.interrupt()
    client.wait(prompt_id)
    run, nodes = record(client, prompt_id)
    assert run["status"] == "interrupted"
    assert {key: item["status"] for key, item in nodes.items()} == {"1": "done", "2": "failed"}
    run, nodes = record(client, client.run({"1": node("TimedWork")}))
    assert run["status"] == "success" and nodes["1"]["status"] == "done"


def test_a_run_can_be_watched_while_it_goes_on(plain):
    client = plain.client()
    prompt_id = client.queue({"1": node("TimedWork"), "2": node("TimedWork", 30, value=["1", 0])})
    wait_until(lambda: "2" in nodes_so_far(client, prompt_id))
    run, nodes = record(client, prompt_id)
    client.interrupt()
    client.wait(prompt_id)
    assert run["status"] == "running"
    assert nodes["1"]["status"] == "done" and nodes["2"]["status"] == "running"
    assert len(run["samples"]["seconds"]) == len(run["samples"]["rss_mib"]) >= 2


def test_ram_that_a_node_takes_and_gives_back_shows_as_the_peak(plain):
    client = plain.client()
    run, nodes = record(client, client.run({"1": node("TimedMemory", 0.3, mib=256, keep=False)}))
    before = nodes["1"]["rss_before_mib"]
    assert run["peak_rss_mib"] >= before + 250
    assert nodes["1"]["rss_after_mib"] < before + 100
    assert nodes["1"]["vram_before_mib"] is None and run["peak_vram_mib"] is None
    assert run["device"] == "cpu"


def test_what_our_nodes_did_is_part_of_the_record(plain):
    client = plain.client()
    prompt = {"1": node("TimedWork"), "2": node("TimedNote", value=["1", 0])}
    run, _ = record(client, client.run(prompt))
    assert [(item["node_id"], item["action"], item["freed_mib"]) for item in run["actions"]] == [
        ("2", "purge", 12.5)
    ]
    attempts = [(item["attempt"], item["recovered"], item["class_type"]) for item in run["oom"]]
    assert attempts == [(1, False, "TimedNote"), (2, True, "TimedNote")]


def test_a_recovery_is_told_to_the_browser_once(plain):
    client = plain.client()
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


def test_comfyui_keeps_its_own_progress_handler_and_registry(plain):
    client = plain.client()
    entry = client.run({"1": node("TimedRegistry")})
    told = own_times(entry)["1"][0]
    assert told["prompt_id"] == entry["prompt_id"]
    assert told["handlers"]["webui"] == "WebUIProgressHandler"


def test_hundreds_of_nodes_are_each_recorded_in_order(plain):
    client = plain.client()
    prompt = {"0": node("TimedWork", 0.0)}
    for index in range(1, 200):
        prompt[str(index)] = node("TimedWork", 0.0, value=[str(index - 1), 0])
    _, nodes = record(client, client.run(prompt))
    assert list(nodes) == [str(index) for index in range(200)]
    assert_apart(nodes.values())


def test_the_last_fifty_runs_are_kept(plain):
    client = plain.client()
    ids = [client.queue({"1": node("TimedWork", 0.0)}) for _ in range(55)]
    client.wait(ids[-1])
    found = client.get_json("/headroom/runs")["runs"]
    assert [run["prompt_id"] for run in found] == ids[:-51:-1]
    assert client.get(f"/headroom/runs/{ids[0]}")[0] == 404


def test_a_prompt_that_is_refused_leaves_no_record(plain):
    client = plain.client()
    before = client.get_json("/headroom/runs?limit=1")["runs"]
    refused = {"prompt": {"1": {"class_type": "NoSuchNode", "inputs": {}}}}
    status, _ = client.post_json("/prompt", refused)
    assert status == 400
    assert client.get_json("/headroom/runs?limit=1")["runs"] == before


def nodes_so_far(client, prompt_id):
    status, found = client.get(f"/headroom/runs/{prompt_id}")
    return {item["node_id"] for item in found["nodes"]} if status == 200 else set()


def wait_until(condition, timeout=60.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the server did not get there"
        time.sleep(0.02)
