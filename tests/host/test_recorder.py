"""Every prompt is recorded, node by node, by a real server.

The test nodes tell by their own clock when they ran. No speed is tested: a span must hold the time
that the node itself saw, and spans of nodes that cannot overlap must not.
"""

import re

import pytest
from support.timed import assert_apart, assert_holds, node, nodes_so_far, own_times, record

from tools.waiting import wait_until

pytestmark = pytest.mark.host


@pytest.fixture(scope="module", params=["default", "--cache-none"])
def server(serve, request):
    flags = [] if request.param == "default" else [request.param]
    return serve(*flags)


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


def test_cached_nodes_are_recorded_even_when_the_executor_never_looks_at_them(client):
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


def test_a_node_has_the_title_that_its_user_gave_it(client):
    prompt = {"1": {**node("TimedWork"), "_meta": {"title": "My favourite node"}},
              "2": {**node("TimedWork", value=["1", 0]), "_meta": "no object"},
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


def test_a_loop_by_expansion_is_recorded_turn_by_turn(client):
    _, nodes = record(client, client.run({"1": node("TimedLoop", turns=4)}))
    assert sum(item["class_type"] == "TimedWork" for item in nodes.values()) == 4
    assert sum(item["class_type"] == "TimedLoop" for item in nodes.values()) == 4
    assert {item["display_node_id"] for item in nodes.values()} == {"1"}
    assert all(item["status"] == "done" for item in nodes.values())
    assert_apart(nodes.values())


def test_a_list_is_one_span_of_the_node_that_ran_for_each_item(client):
    entry = client.run({"1": node("TimedList"), "2": node("TimedWork", 0.01, value=["1", 0])})
    run, nodes = record(client, entry)
    own = own_times(entry)["2"]
    assert len(own) == 4 and len(nodes["2"]["spans"]) == 1
    assert_holds(run, nodes["2"], {"began": own[0]["began"], "ended": own[-1]["ended"]})


def test_async_nodes_overlap_and_keep_their_own_time(client):
    entry = client.run({
        "1": node("TimedAsync", 1.0), "2": node("TimedAsync", 1.0),
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
def test_a_lazy_node_is_not_charged_for_the_nodes_it_waits_for(client, kind):
    entry = client.run({"1": node("TimedInner", 0.3), "2": node(kind, 0.3, value=["1", 0])})
    run, nodes = record(client, entry)
    own = own_times(entry)
    asked, worked = nodes["2"]["spans"]
    assert_holds(run, nodes["1"], own["1"][0])
    assert_holds(run, {"spans": [worked]}, own["2"][0])
    assert asked[1] <= nodes["1"]["spans"][0][0] and nodes["1"]["spans"][0][1] <= worked[0]


@pytest.mark.parametrize("kind", ["TimedFail", "TimedAsyncFail"])
def test_a_failure_is_recorded_with_the_node_that_raised(client, kind):
    prompt_id = client.queue({
        "1": node("TimedWork"), "2": node(kind, 0.05, value=["1", 0]),
        "3": node("TimedWork", value=["2", 0]),
    })
    client.wait(prompt_id)
    run, nodes = record(client, prompt_id)
    assert run["status"] == "error"
    assert {key: item["status"] for key, item in nodes.items()} == {"1": "done", "2": "failed"}
    assert nodes["2"]["seconds"] >= 0.05
    assert run["error"]["node_id"] == "2" and "on purpose" in run["error"]["error"]
    assert run["slower"] == []
    if kind == "TimedFail":
        means = run["error"]["means"]
        assert means["family"] == "pinned memory" and not means["retry"]
        assert "--disable-pinned-memory" in means["do"][0]["text"]  # which this ComfyUI has
        [first, *_] = client.get(f"/headroom/runs/{prompt_id}/advice")[1]
        assert means["what"]["text"] in first["text"]


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
    assert {key: item["status"] for key, item in nodes.items()} == {"1": "done", "2": "stopped"}
    run, nodes = record(client, client.run({"1": node("TimedWork")}))
    assert run["status"] == "success" and nodes["1"]["status"] == "done"


def test_a_prompt_without_progress_makes_its_server_not_ready(client):
    setting = "/settings/Headroom.Server.NoProgressSeconds"
    client.post_json(setting, 1)
    try:
        prompt_id = client.queue({"1": node("TimedWork", 60)})

        def is_stuck():
            status, answer = client.get("/headroom/ready")
            sentence = r"no progress for \d+ s in TimedWork #1\."
            return status == 503 and re.fullmatch(sentence, answer["reason"])

        wait_until(is_stuck)
        assert client.get("/headroom/memory")[1]["stuck"]["said"]["template"].endswith("in {node}")
        client.interrupt()
        client.wait(prompt_id)
        wait_until(lambda: client.get("/headroom/ready")[0] == 200)
    finally:
        client.post_json(setting, 0)


def test_a_node_that_took_longer_than_before_is_named_in_the_runs_entry_with_what_differed(client):
    runs = [record(client, client.run({"1": {"class_type": "TimedSeed", "inputs": {"seed": seed}}}))
            for seed in (1, 40)]
    (first, _), (second, _) = runs
    (slower,) = second["slower"]
    assert first["slower"] == [] and slower["before_run"] == first["prompt_id"]
    sentence = r"TimedSeed #1 took [\d.]+ s, and [\d.]+ s in an earlier run: .+"
    assert re.fullmatch(sentence, slower["text"]) and slower["said"]["values"]["why"]
