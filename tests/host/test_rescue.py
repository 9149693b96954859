"""A prompt without any guard runs out of memory in a real ComfyUI and gets a second life."""

import io
import json
import uuid

import pytest
from PIL import Image
from support.oom import PACK

from devtools.client import PromptInvalid
from devtools.graph import Graph
from devtools.rescued import RESCUE, Lives, live, picture, pictures, video, wait_until

pytestmark = pytest.mark.host
AT_ONCE = {"times": 1, "error": ""}


@pytest.fixture
def gpu(sim):
    return sim(2048, packs=(PACK,))


def pixels(client, entry):
    return [Image.open(io.BytesIO(one)).tobytes() for one in pictures(client, entry)]


def key():
    return uuid.uuid4().hex


def chain(*, fails, **once):
    """A number that is written, runs out of memory if `fails`, and is written once more."""
    graph, name = Graph(), key()
    number = graph.add("EmptyImage", "image", width=8, height=8, batch_size=1, color=7)
    graph.add("OomWrites", "first", value=number, key=f"{name} first")
    once = graph.add("OomOnce", "once", value=number, key=name,
                     **{**AT_ONCE, **once, **({} if fails else {"times": 0})})
    graph.add("OomWrites", "last", value=once, key=f"{name} last")
    return graph.prompt


def written(client, entry, node_id):
    texts = entry["outputs"].get(node_id, {}).get("text")
    return None if texts is None else json.loads(texts[0])


def told(gpu, prompt_id):
    return gpu.client.get_json(f"/headroom/runs/{prompt_id}")


# ---------------------------------------------------------------- real models


def test_whatever_node_fails_the_pixels_are_those_of_the_unfailed_run(gpu):
    prompt = picture(1, extras=True).prompt
    gpu.unload()
    gpu.arm_fault(at=10**9)
    wanted = pixels(gpu.client, live(gpu.client, prompt).first)
    total = gpu.fault()["seen"]
    failed = set()
    for share in (0.042, 0.2, 0.48, 0.515, 0.85, 0.93):
        gpu.unload()
        gpu.arm_fault(at=int(total * share))
        lives = live(gpu.client, prompt)
        assert gpu.fault()["failed"] == 1
        gpu.disarm()
        assert lives.second is not None and lives.succeeded
        assert pixels(gpu.client, lives.second) == wanted
        assert lives.finished <= lives.cached
        failed.add(lives.failed)
    assert {None, "sampler", "decode"} <= failed  # None: ComfyUI left a part of the LoRA out
    assert {"positive", "negative"} & failed


def test_only_the_failed_node_and_what_had_not_run_run_again_guarded(gpu):
    gpu.client.run(picture(3).prompt)  # everything before the sampler is cached
    gpu.arm_fault(above_bytes=100_000, times=1)
    lives = live(gpu.client, picture(4).prompt)
    gpu.disarm()
    run = told(gpu, lives.second_id)
    ran = [node["node_id"] for node in run["nodes"] if not node["cached"]]
    assert lives.failed == "sampler"
    assert sorted(ran) == ["decode", "headroom-guard-1-0", "headroom-guard-1-2", "sampler", "save"]
    assert run["rescued_from"] == lives.first_id
    assert told(gpu, lives.first_id)["rescued_as"] == lives.second_id


def test_a_sampler_fed_by_a_guider_is_guarded_through_it(gpu):
    graph = video(write="OomWrites", value=None, key=key())
    gpu.unload()
    gpu.arm_fault(above_bytes=20_000, at=8)
    lives = live(gpu.client, graph.prompt)
    gpu.disarm()
    assert (lives.failed, lives.succeeded) == ("sample", True)
    ran = {node["node_id"] for node in told(gpu, lives.second_id)["nodes"] if not node["cached"]}
    assert ran == {"headroom-guard-wan-0", "headroom-copy-guider", "sample", "save"}


def test_a_node_that_expands_is_guarded_from_outside(gpu):
    graph = picture(11)
    expands = graph.add("OomExpands", "expands", model=["1", 0], positive=["positive", 0],
                        latent=["latent", 0], vae=["1", 2], seed=5)
    graph.prompt["save"]["inputs"]["images"] = expands[0]
    for unused in ("sampler", "decode", "negative"):
        del graph.prompt[unused]
    gpu.client.run(picture(12).prompt)
    gpu.arm_fault(above_bytes=100_000, times=1)
    lives = live(gpu.client, graph.prompt)
    gpu.disarm()
    assert (lives.failed, lives.succeeded) == ("expands", True)
    assert {"headroom-guard-1-0", "headroom-guard-1-2"} <= {
        node["node_id"] for node in told(gpu, lives.second_id)["nodes"]}


# ---------------------------------------------------------------- what is written, and when


@pytest.mark.parametrize("writer", ["OomWrites", "OomWritesAlways"])
def test_what_was_written_is_not_written_twice(gpu, writer):
    prompt = chain(fails=True)
    prompt["first"]["class_type"] = writer
    lives = live(gpu.client, prompt)
    assert (lives.failed, lives.succeeded) == ("once", True)
    wrote = [written(gpu.client, entry, "first") for entry in (lives.first, lives.second)]
    assert wrote in ([1, None], [None, 1])
    assert written(gpu.client, lives.second, "last") == 1


def test_the_second_life_comes_before_everything_else_that_waits(gpu):
    slow = gpu.client.queue(picture(21, size=128).prompt)
    first_id = gpu.client.queue(chain(fails=True), extra_data=RESCUE)
    other_id = gpu.client.queue(chain(fails=False))
    gpu.client.wait(slow)
    gpu.client.wait(other_id)
    second_id = told(gpu, first_id)["rescued_as"]
    order = list(gpu.client.get_json("/history"))
    assert order[-3:] == [first_id, second_id, other_id]
    numbers = [gpu.client.history(one)["prompt"][0] for one in order[-3:]]
    assert numbers == sorted(numbers)


def test_a_second_life_that_fails_is_the_end_and_its_text_names_both(gpu):
    lives = live(gpu.client, chain(fails=True, times=2))
    assert not lives.succeeded
    failure = told(gpu, lives.second_id)["failure"]
    assert f"second try of prompt {lives.first_id}" in failure["text"]
    assert failure["can_rescue"] is False
    assert told(gpu, lives.second_id)["rescued_as"] is None
    status, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": lives.second_id})
    assert status == 409 and "second try" in answer["error"]


def test_the_error_of_a_guard_in_a_second_life_names_the_first_too(gpu):
    gpu.client.run(picture(26).prompt)
    gpu.arm_fault(every=1, above_bytes=100_000, times=10_000)
    lives = live(gpu.client, picture(27).prompt)
    gpu.disarm()
    assert lives.failed == "sampler" and not lives.succeeded
    message = dict(lives.second["status"]["messages"])["execution_error"]["exception_message"]
    assert "OOM Guard could not finish" in message
    assert f"second try of prompt {lives.first_id}: KSampler (node sampler)" in message


def test_another_error_ends_the_prompt_as_ever(gpu):
    lives = live(gpu.client, chain(fails=True, error="CUDA error: an illegal memory access"))
    assert lives.second is None and not lives.succeeded
    status, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": lives.first_id})
    assert status == 409 and "out-of-memory" in answer["error"]


def test_an_interrupt_that_the_error_outran_is_kept_to(gpu):
    prompt = picture(25).prompt
    prompt["interrupting"] = {"class_type": "OomInterruptOnce", "inputs": {"model": ["1", 0]}}
    prompt["sampler"]["inputs"]["model"] = ["interrupting", 0]
    lives = live(gpu.client, prompt)
    assert lives.failed == "sampler" and lives.second is None
    assert live(gpu.client, chain(fails=True)).succeeded  # the next one is another matter


def test_a_queue_that_was_cleared_stays_empty(gpu):
    slow = gpu.client.queue(picture(31, size=512).prompt, extra_data=RESCUE)
    wait_until(lambda: gpu.client.get_json("/queue")["queue_running"])
    gpu.client.post_json("/queue", {"clear": True})
    gpu.arm_fault(every=1, above_bytes=100_000, times=10_000)
    lives = Lives(slow, gpu.client.wait(slow))
    gpu.disarm()
    assert not lives.succeeded
    assert told(gpu, slow)["rescued_as"] is None
    assert gpu.client.get_json("/queue") == {"queue_running": [], "queue_pending": []}


# ---------------------------------------------------------------- who decides, and who is told


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


@pytest.mark.parametrize(("body", "status", "words"), [
    ({"prompt_id": "nowhere"}, 404, "No prompt nowhere is known"),
    ({}, 400, "Expected `prompt_id`"),
    ({"prompt_id": 5}, 400, "but got 5"),
    ({"prompt_id": "a", "front": True}, 400, "Expected only the keys prompt_id"),
    ([], 400, "Expected a JSON object"),
])
def test_a_bad_request_is_told_in_one_sentence(gpu, body, status, words):
    found, answer = gpu.client.post_json("/headroom/rescue", body)
    assert found == status and words in answer["error"]


def test_what_comes_through_a_pipe_is_named(gpu):
    graph = Graph()
    wan = graph.add("OomTinyWan", "video", batch=1)
    pipe = graph.add("OomPipe", "pipe", model=wan[0])
    graph.add("OomWrites", "write", key=key(),
              value=graph.add("OomFromPipe", "from", pipe=pipe, key=key()))
    lives = live(gpu.client, graph.prompt, extra_data=None)
    _, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": lives.first_id})
    assert answer["not_guarded"] == [{"node_id": "from", "input": "pipe", "type": "OOM_PIPE"}]


def test_a_prompt_can_ask_to_be_guarded_from_the_start(gpu):
    entry = gpu.client.run(picture(41).prompt, extra_data={"headroom": {"guard": True}})
    classes = [node["class_type"] for node in told(gpu, entry["prompt_id"])["nodes"]]
    assert classes.count("HeadroomOOMGuard") == 3
    gpu.arm_fault(above_bytes=100_000, times=1)
    again = live(gpu.client, picture(42).prompt, {"headroom": {"guard": True, "rescue": True}})
    gpu.disarm()
    assert again.succeeded and again.second is None
    assert any(attempt["recovered"] for attempt in told(gpu, again.first_id)["oom"])


def test_a_guarded_prompt_keeps_the_workflow_of_its_user_and_what_cannot_be_guarded(gpu):
    workflow = {"nodes": [{"id": 1}], "links": []}
    extra = {"extra_pnginfo": {"workflow": workflow}, "headroom": {"guard": True}}
    entry = gpu.client.run(picture(43).prompt, extra_data=extra)
    [saved] = pictures(gpu.client, entry)
    assert json.loads(Image.open(io.BytesIO(saved)).info["workflow"]) == workflow


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
        wished = live(gpu.client, chain(fails=True), extra_data=None)
        refused = live(gpu.client, chain(fails=True), extra_data={"headroom": {"rescue": False}})
    finally:
        gpu.client.post_json(setting, "offer to run it again")
    assert wished.succeeded
    assert refused.second is None


# ------------------------------------------------- no cache, no log, and the server's own wishes


@pytest.fixture
def bare(sim):
    return sim(2048, "--cache-none", "--verbose", "ERROR", packs=(PACK,),
               env={"HEADROOM_RESCUE": "automatic"})


def test_without_a_cache_everything_runs_again_but_nothing_is_written_twice(bare):
    lives = live(bare.client, chain(fails=True), extra_data=None)
    assert lives.succeeded
    wrote = [written(bare.client, entry, "first") for entry in (lives.first, lives.second)]
    assert wrote in ([1, None], [None, 1])
    assert written(bare.client, lives.second, "last") == 1
    assert "everything runs again" in told(bare, lives.first_id)["failure"]["text"]


def test_without_a_cache_every_wire_is_guarded(bare):
    bare.arm_fault(above_bytes=100_000, times=1)
    lives = live(bare.client, picture(51).prompt, extra_data=None)
    bare.disarm()
    assert lives.succeeded and lives.second is not None
    guards = [node for node in told(bare, lives.second_id)["nodes"]
              if node["class_type"] == "HeadroomOOMGuard"]
    assert len(guards) == 3
