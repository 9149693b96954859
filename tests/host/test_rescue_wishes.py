"""Who decides that a prompt gets a rerun, and who is told."""

import io
import json

import pytest
from PIL import Image
from support.rescue import chain, failing, key, pictures, run_and_rerun, told

from tools.client import PromptInvalid
from tools.graph import Graph, picture
from tools.waiting import wait_until

pytestmark = pytest.mark.host


def test_an_offer_is_told_to_its_client_and_taken_over_http(gpu):
    client_id = key()
    with gpu.client.events(client_id) as stream:
        first_id = gpu.client.queue(chain(fails=True), client_id=client_id)
        gpu.client.wait(first_id)
        event = wait_until(lambda: next(
            (e["data"] for e in iter(lambda: stream.receive(5.0), None)
             if e["type"] == "headroom.rescue"), None))
    assert event["prompt_id"] == first_id and event["rescued_as"] is None
    assert event["failure"]["can_rescue"] is True
    assert event["failure"]["asked_mib"] == 1536.0
    assert "once" in event["failure"]["text"] and "can run again" in event["failure"]["text"]
    status, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": first_id})
    assert status == 200 and answer["rescued_from"] == first_id
    assert gpu.client.wait(answer["prompt_id"])["status"]["status_str"] == "success"
    status, again = gpu.client.post_json("/headroom/rescue", {"prompt_id": first_id})
    assert status == 409 and answer["prompt_id"] in again["error"]


def test_what_comes_through_a_pipe_is_named_and_it_is_not_said_that_its_models_have_no_guard(gpu):
    graph = Graph()
    wan = graph.add("OomTinyWan", "video", batch=1)
    pipe = graph.add("OomPipe", "pipe", model=wan[0])
    graph.add("OomWrites", "write", key=key(),
              value=graph.add("OomFromPipe", "from", pipe=pipe, key=key()))
    runs = run_and_rerun(gpu.client, graph.prompt, extra_data=None)
    _, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": runs.first_id})
    assert answer["not_guarded"] == [{"node_id": "from", "input": "pipe", "type": "OOM_PIPE"}]
    assert answer["text"].endswith("Not guarded: models that come through `pipe` (OOM_PIPE) of "
                                   "node from, unless they passed a guard before.")


def test_a_prompt_can_ask_to_be_guarded_from_the_start(gpu):
    entry = gpu.client.run(picture(41).prompt, extra_data={"headroom": {"guard": True}})
    classes = [node["class_type"] for node in told(gpu, entry["prompt_id"])["nodes"]]
    assert classes.count("HeadroomOOMGuard") == 3
    again = failing(gpu, picture(42).prompt, {"headroom": {"guard": True, "rescue": True}})
    assert again.succeeded and again.rerun is None
    assert any(attempt["recovered"] for attempt in told(gpu, again.first_id)["oom"])


def test_a_guarded_prompt_keeps_the_workflow_and_the_prompt_of_its_user(gpu):
    workflow = {"nodes": [{"id": 1}], "links": []}
    extra = {"extra_pnginfo": {"workflow": workflow}, "headroom": {"guard": True}}
    entry = gpu.client.run(picture(43).prompt, extra_data=extra)
    [saved] = pictures(gpu.client, entry)
    written = Image.open(io.BytesIO(saved)).info
    assert json.loads(written["workflow"]) == workflow
    assert json.loads(written["prompt"]) == entry["prompt"][2] == picture(43).prompt


def test_a_prompt_that_is_wrong_is_refused_as_without_a_guard(gpu):
    prompt = picture(44).prompt
    prompt["sampler"]["inputs"]["model"] = ["1", 2]
    for guard in (False, True):
        with pytest.raises(PromptInvalid) as refused:
            gpu.client.queue(prompt, extra_data={"headroom": {"guard": guard}})
        assert "return_type_mismatch" in json.dumps(refused.value.details)


def test_the_browser_users_wish_counts_where_nobody_else_says_anything(gpu):
    setting = "/settings/Headroom.Rescue.AfterOutOfMemory"
    gpu.client.post_json(setting, "run it again")
    try:
        wished = run_and_rerun(gpu.client, chain(fails=True), extra_data=None)
        refused = run_and_rerun(gpu.client, chain(fails=True),
                                extra_data={"headroom": {"rescue": False}})
    finally:
        gpu.client.post_json(setting, "offer to run it again")
    assert wished.succeeded
    assert refused.rerun is None
