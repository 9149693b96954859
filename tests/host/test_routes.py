"""The HTTP routes of a real server: what they answer, and that they never get in the way."""

import pytest
from support.timed import (
    Later,
    assert_unloaded_once_each,
    detached,
    node,
    own_times,
    wait_until_idle,
)

from tools.graph import forget_everything
from tools.waiting import wait_until

pytestmark = pytest.mark.host


@pytest.fixture
def client(cpu_server):
    client = cpu_server.client()
    wait_until_idle(client)
    return client


@pytest.fixture
def running(client):
    """A prompt that runs until the test is over."""
    prompt_id = client.queue({"1": node("TimedWork", 55)})
    wait_until(lambda: client.get(f"/headroom/runs/{prompt_id}")[0] == 200)
    yield prompt_id
    client.interrupt()
    client.wait(prompt_id)


@pytest.fixture
def slow_model(client):
    """A loaded model that takes a second to unload."""
    client.run({"1": node("TimedSlowModel", 1.0)})
    wait_until_idle(client)


@pytest.mark.parametrize(("kind", "holder"), [
    ("TimedLeakInModule", "leaking.KEPT"), ("TimedLeakNone", None)])
def test_a_node_that_keeps_50_mib_a_run_is_named_after_five_runs(client, kind, holder):
    forget_everything(client)  # also the node of the test before, and what it kept
    client.run({"1": node("TimedWork", 0)})  # ComfyUI lets go of it before the next prompt
    client.post_when_idle("/headroom/purge", {"free_ram": True})  # otherwise freed memory is reused
    for turn in range(5):
        prompt_id = client.queue({"leak": node(kind, turn=turn)})
        client.wait(prompt_id)
    wait_until_idle(client)

    def grows():
        return client.get_json(f"/headroom/runs/{prompt_id}")["grows_over_runs"]

    if holder is None:  # the allocator may have grown
        assert [one for one in grows() if one["display_node_id"] or one["holder"]] == []
        return
    wait_until(lambda: [one["holder"] for one in grows()] == [holder], 120)  # it is read seldom
    assert [one["class_type"] for one in grows()] == [kind]
    assert grows()[0]["mib_a_run"] == pytest.approx(50, abs=15)
    packs = client.get_json(f"/headroom/runs/{prompt_id}")["ram_held"]["packs"]
    assert {one["holder"]: one["mib"] for one in packs}[holder] >= 250


def test_memory_tells_devices_ram_and_loaded_models(client, slow_model):
    memory = client.get_json("/headroom/memory")
    assert memory["devices"] == [] and memory["busy"] is False
    assert 0 < memory["ram"]["rss_mib"] < memory["ram"]["total_mib"]
    model = memory["models"][0]
    assert (model["class"], model["kind"], model["device"]) == ("Linear", "model", "cpu")
    assert model["loaded_mib"] == 0 and model["total_mib"] == pytest.approx(0.251, abs=0.01)
    assert client.get_json("/headroom/memory")["models"][0]["id"] == model["id"]
    assert client.get_json("/api/headroom/memory")["models"] == memory["models"]


def test_who_holds_ram_is_told_beside_a_model_that_is_just_being_made(client):
    run = f"/headroom/runs/{client.run({'begun': node('ProbeBegun')})['prompt_id']}"
    wait_until(lambda: client.get_json(run)["ram_held"] is not None)  # it is looked up seldom


def test_an_offload_takes_the_model_it_names(client):
    client.run({"1": node("TimedSlowModel", 0.0), "2": node("TimedSlowModel", 0.0)})
    first, second = client.get_json("/headroom/memory")["models"][:2]
    report = client.post_when_idle("/api/headroom/offload", {"model": first["id"]})
    assert "Linear" in report["text"]
    left = [model["id"] for model in client.get_json("/headroom/memory")["models"]]
    assert first["id"] not in left and second["id"] in left
    status, answer = client.post_json("/headroom/offload", {"model": first["id"]})
    assert status == 400 and first["id"] in answer["error"]


def test_a_purge_leaves_the_models_it_is_told_to_keep(client):
    client.run({"1": node("TimedSlowModel", 0.0), "2": node("TimedSlowModel", 0.0)})
    kept = client.get_json("/headroom/memory")["models"][1]["id"]
    body = {"unload": "all but keep", "keep": [kept]}
    client.post_when_idle("/headroom/purge", body)
    assert [m["id"] for m in client.get_json("/headroom/memory")["models"]] == [kept]
    client.post_when_idle("/headroom/purge", {})
    assert client.get_json("/headroom/memory")["models"] == []


@pytest.mark.parametrize(("route", "body"), [
    ("/headroom/purge", {"unload": "no models"}), ("/api/headroom/offload", {"model": "m1"})])
def test_nothing_is_done_while_a_prompt_runs(client, running, route, body):
    status, answer = client.post_json(route, body)
    assert status == 409 and "prompt is running or queued" in answer["error"]
    assert client.get_json("/headroom/memory")["busy"] is True


def test_while_a_prompt_runs_no_model_counts_as_idle(client, running):
    status, answer = client.get("/headroom/ready?free_mib=1")
    assert status == 200 and answer["device"] == "cpu"
    assert (answer["running"], answer["evictable_mib"]) == (1, 0)
    status, answer = client.get("/api/headroom/ready?free_mib=999999999")
    assert status == 503 and "a prompt runs" in answer["reason"]


@pytest.mark.parametrize(("route", "body"), [("purge", {"path": "/etc/passwd"}), ("offload", [])])
def test_a_bad_body_is_refused_even_while_a_prompt_runs(client, running, route, body):
    status, answer = client.post_json(f"/headroom/{route}", body)
    assert status == 400 and answer["error"].startswith("Expected")
    assert set(answer) == {"error"}


@pytest.mark.parametrize("path", ["/headroom/runs/none", "/headroom/runs/..%2f..%2fetc%2fpasswd"])
def test_an_unknown_run_is_a_404_with_a_sentence(client, path):
    status, answer = client.get(path)
    assert status == 404 and answer["error"].startswith("No record of this prompt")


def test_the_list_of_runs_is_newest_first_and_limited(client):
    ids = [client.run({"1": node("TimedWork")})["prompt_id"] for _ in range(3)]
    found = client.get_json("/api/headroom/runs?limit=2")["runs"]
    assert [run["prompt_id"] for run in found] == ids[:0:-1]
    assert "samples" not in found[0]
    [short] = client.get_json("/headroom/runs?limit=1&nodes=0")["runs"]
    assert short == {name: value for name, value in found[0].items() if name != "nodes"}
    status, answer = client.get("/headroom/runs?limit=0")
    assert status == 400 and "limit" in answer["error"]


def test_a_run_names_the_workflow_that_its_page_queued_it_from(client):
    work = {"1": node("TimedWork", 0)}
    for workflow, named in (({"id": "w1"}, "w1"), ({}, None), ([], None)):
        extra = {"extra_pnginfo": {"workflow": workflow}}
        prompt_id = client.run(work, extra_data=extra)["prompt"][1]
        assert client.get_json(f"/headroom/runs/{prompt_id}")["workflow_id"] == named


def test_a_page_of_another_site_is_refused_as_comfyui_refuses_it(client):
    elsewhere = {"Origin": "http://elsewhere.example"}
    assert client.post_json("/headroom/purge", {}, elsewhere)[0] == 403


@pytest.fixture
def hold(cpu_server):
    """No slow model ends its unloading until this file is gone; `held` beside it: one waits."""
    file = cpu_server.base_dir / "output" / "hold"
    file.with_name("held").unlink(missing_ok=True)
    file.touch()
    yield file
    file.unlink(missing_ok=True)


def test_the_server_answers_while_a_purge_works(client, slow_model, hold):
    purge = Later(lambda: client.post_json("/headroom/purge", {}))
    wait_until(hold.with_name("held").exists)
    for _ in range(3):
        client.get_json("/queue")
        client.get_json("/headroom/memory")
    assert purge.is_alive()
    hold.unlink()
    assert purge.wait().answer[0] == 200


def test_a_prompt_that_comes_during_a_purge_begins_after_it(client, slow_model, hold):
    known = len(detached(client))
    loaded = len(client.get_json("/headroom/memory")["models"])
    purge = Later(lambda: client.post_json("/headroom/purge", {}))
    wait_until(hold.with_name("held").exists)
    prompt_id = client.queue({"1": node("TimedDetached")})
    wait_until(lambda: client.get_json("/queue")["queue_running"])
    hold.unlink()
    [told] = own_times(client.wait(prompt_id))["1"]
    assert purge.wait().answer[0] == 200
    unloaded = detached(client)[known:]
    assert len(unloaded) == loaded and all(ended <= told["began"] for _, ended in unloaded)


def test_what_post_free_asks_for_is_not_done_beside_a_purge(client, slow_model, hold):
    expected = len(detached(client)) + len(client.get_json("/headroom/memory")["models"])
    purge = Later(lambda: client.post_json("/headroom/purge", {}))
    wait_until(hold.with_name("held").exists)
    free = Later(lambda: client.free())
    client.get_json("/queue")
    assert free.is_alive()
    hold.unlink()
    purge.wait()
    free.wait()
    assert purge.answer[0] == 200
    assert_unloaded_once_each(client, expected)
    assert client.run({"1": node("TimedWork")})["status"]["status_str"] == "success"


def test_a_purge_that_follows_post_free_at_once_waits_for_what_that_does(client):
    for _ in range(3):
        for _ in range(3):
            client.run({"1": node("TimedSlowModel", 0.3)})
        known = len(detached(client))
        expected = known + len(client.get_json("/headroom/memory")["models"])
        client.free()
        assert client.post_json("/headroom/purge", {})[0] == 200
        wait_until(lambda: not client.get_json("/headroom/memory")["models"])
        wait_until(lambda expected=expected: len(detached(client)) >= expected)
        assert_unloaded_once_each(client, expected)


def test_other_routes_answer_while_40_purges_wait(client, slow_model, hold):
    requests = [Later(lambda: client.post_json("/headroom/purge", {})) for _ in range(40)]
    wait_until(hold.with_name("held").exists)
    for path in ("/", "/view?filename=none.png", "/headroom/memory"):
        client.get(path)
    assert all(request.is_alive() for request in requests)
    hold.unlink()
    assert [request.wait().answer[0] for request in requests] == [200] * 40


def test_garbage_collections_do_not_walk_over_what_was_imported_before_the_server_listened(client):
    [told] = own_times(client.run({"1": node("TimedWalked")}))["1"]
    assert told["walked"] is False


def test_prompts_run_on_after_many_purges_at_once(client):
    client.run({"1": node("TimedSlowModel", 0.0)})
    requests = [
        Later(lambda: client.post_json("/headroom/purge", {"unload": "all models"}))
        for _ in range(8)
    ]
    ids = [client.queue({"1": node("TimedSlowModel", 0.0)}) for _ in range(4)]
    assert {later.wait().answer[0] for later in requests} <= {200, 409}
    for prompt_id in ids:
        assert client.wait(prompt_id)["status"]["status_str"] == "success"
