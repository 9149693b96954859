"""What one server of a farm does with a prompt, over HTTP to a server that computes nothing."""

import json

import pytest
from support.farm_orders import PATIENT, SILENT, Waited, asked, once, order

from fake_comfy import FakeComfy
from farm.errors import is_out_of_memory, known_errors
from farm.servers import ServerSpec
from farm.words import Facts
from farm.worker import Patience, ServerFailed
from headroom.base.error_table import ROWS, TABLE
from headroom.guard.errors import where_of_text


@pytest.fixture
def comfy():
    server = FakeComfy(1000)
    yield server
    server.silent.clear()
    server.stop()


@pytest.fixture
def made(tmp_path):
    workers = []

    def make(url, patience=PATIENT):
        workers.append(Waited(ServerSpec(url, url), patience, known_errors(), tmp_path))
        workers[-1].start()
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


@pytest.fixture
def worker(comfy, made):
    return made(comfy.url)


def test_a_server_tells_its_size_and_its_room(comfy, worker):
    assert worker.start() == Facts(1000, 1000, True)
    comfy.other_mib = 300
    assert worker.start() == Facts(1000, 700, True)


def test_a_stock_server_is_used_too(made):
    stock = FakeComfy(1000, headroom=False)
    try:
        worker = made(stock.url)
        assert worker.start() == Facts(1000, None, False)
        outcome = worker.run(order(asked(mib=500), room_mib=700))
        assert (outcome.ending, outcome.needed_mib) == ("done", None)
    finally:
        stock.stop()


@pytest.mark.parametrize("answer", [
    (404, "<html>"), (200, "<html>"), (200, {}), (200, []), (200, {"devices": 3}), (502, {}),
])
def test_an_address_that_is_not_comfyui_is_no_server(comfy, made, monkeypatch, answer):
    monkeypatch.setattr(comfy, "answer", lambda path, query, body: answer)
    with pytest.raises(ServerFailed, match="it is no ComfyUI: GET /system_stats"):
        made(comfy.url)


def test_a_finished_prompt_has_its_entry_its_id_there_and_its_need(comfy, worker):
    comfy.other_mib = 100
    worker.start()
    one = order(asked(mib=500, seed=7))
    outcome = worker.run(one)
    assert (outcome.ending, outcome.needed_mib, outcome.rescued) == ("done", 500, False)
    assert outcome.entry["outputs"] and outcome.attempt == one.prompt_id
    assert outcome.facts == Facts(1000, 900, True)


def test_a_prompt_does_not_begin_where_there_is_no_room(comfy, worker):
    comfy.other_mib = 600
    outcome = worker.run(order(asked(mib=500), room_mib=500))
    assert (outcome.ending, outcome.facts.room_mib) == ("no room", 400)
    assert comfy.posts("/prompt") == []


def test_out_of_memory_is_told_apart_from_other_errors(worker):
    outcome = worker.run(order(asked(mib=5000)))
    assert outcome.ending == "out of memory" and "node 1 (Fake)" in outcome.text
    assert worker.run(order(asked(raises=True))).ending == "error"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_farm_knows_each_error_of_the_table_as_the_pack_does(row):
    text = json.loads(TABLE.read_text(encoding="utf-8"))["errors"][ROWS.index(row)]["texts"][0]
    failure = {"exception_type": "RuntimeError", "exception_message": text}
    known_here = where_of_text("RuntimeError", text) is not None
    assert is_out_of_memory(failure, known_errors()) == known_here


def test_a_buffer_for_weights_that_cannot_grow_is_out_of_memory(worker):
    outcome = worker.run(order(asked(raises="VRAM grow failed: 1048576 bytes")))
    assert outcome.ending == "out of memory"


def test_a_prompt_is_rescued_where_it_is_only_if_that_is_wanted(worker):
    one = asked(mib=1500)
    assert worker.run(order(one)).ending == "out of memory"
    outcome = worker.run(order(one, 1, rescue=True))
    assert (outcome.ending, outcome.rescued) == ("done", True)
    assert outcome.attempt != order(one, 1).prompt_id  # that of the rerun
    assert worker.run(order(asked(mib=2500), rescue=True)).ending == "out of memory"


def test_a_guarded_prompt_counts_as_rescued(worker):
    outcome = worker.run(order(asked(mib=1500), guard=True))
    assert (outcome.ending, outcome.rescued) == ("done", True)


def test_the_prompts_own_wishes_win_over_the_farms(comfy, worker):
    own = {"headroom": {"rescue": False}, "mine": 1}
    assert worker.run(order(asked(own, mib=1500), rescue=True)).ending == "out of memory"
    [body] = comfy.posts("/prompt")
    assert body["extra_data"] == {"headroom": {"rescue": False}, "mine": 1}


def test_a_refusal_names_the_node(worker):
    outcome = worker.run(order(asked(kind="Unknown")))
    assert outcome.ending == "refused" and "node 1 (Unknown): no such node" in outcome.text


def test_a_prompt_that_a_server_has_already_is_not_queued_twice(comfy, worker):
    one = order(asked(seed=3, seconds=0.3), resumes=True)
    assert worker.run(one).ending == "done"  # not there: queued
    assert worker.run(one).ending == "done"  # in the history
    comfy.prompts[order(asked(seed=4)).prompt_id] = {}  # runs
    running = order(asked(seed=4), resumes=True)
    looks = "GET", f"/history/{running.prompt_id}", None  # it was seen in the queue before
    once(lambda: looks in comfy.asked,
         lambda: comfy.work(running.prompt_id, running.asked.prompt, {}))
    assert worker.run(running).ending == "done"
    assert len(comfy.posts("/prompt")) == 1


def test_an_abandoned_attempt_on_a_server_is_stopped_first(comfy, worker):
    comfy.prompts["old"] = {}
    assert worker.run(order(asked(), abandoned=("old", "older"))).ending == "done"
    assert comfy.posts("/queue") == [{"delete": ["old", "older"]}]
    assert comfy.posts("/interrupt") == [{"prompt_id": "old"}]


def test_a_prompt_that_takes_too_long_is_stopped(comfy, made):
    worker = made(comfy.url, Patience(silent=60, prompt=0.2))
    outcome = worker.run(order(asked(seconds=30)))
    assert outcome.ending == "timeout"
    assert comfy.prompts == {}


def test_a_users_interrupt_is_told_apart_from_a_failure(comfy, worker):
    once(lambda: comfy.prompts, comfy.prompts.clear)
    assert worker.run(order(asked(seconds=100))).ending == "interrupted"


def test_a_server_that_falls_silent_is_lost_and_is_had_back(comfy, made):
    worker = made(comfy.url, SILENT)
    once(lambda: comfy.prompts, comfy.silent.set)
    outcome = worker.run(order(asked(seconds=100)))
    assert outcome.ending == "lost" and "has not answered" in outcome.text
    with pytest.raises(ServerFailed, match="does not answer"):
        worker.start()
    comfy.prompts.clear()
    comfy.silent.clear()
    worker.worker._patience = PATIENT
    assert worker.start() == Facts(1000, 1000, True)


def test_a_server_that_was_started_anew_meanwhile_is_noticed(comfy, worker, monkeypatch):
    monkeypatch.setattr("farm.comfy.PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(comfy, "end", lambda *_, **__: None)  # no history
    once(lambda: comfy.prompts, comfy.prompts.clear)
    outcome = worker.run(order(asked(seconds=100)))
    assert outcome.ending == "lost" and "started anew" in outcome.text


def test_wrong_answers_at_a_servers_address_cost_the_server_and_not_the_prompt(
    comfy, worker, monkeypatch,
):
    answer = comfy.answer
    monkeypatch.setattr(comfy, "answer", lambda path, query, body: (
        (502, "<html>Bad gateway</html>") if path in ("/queue", "/headroom/memory")
        else answer(path, query, body)))
    outcome = worker.run(order(asked(seed=1), resumes=True))
    assert outcome.ending == "lost" and "GET /queue answered 502" in outcome.text


@pytest.mark.parametrize("path, found, ending", [
    ("/history/", [3], "error"), ("/history/", {"status": {"messages": [["executed"]]}}, "error"),
    ("/history/", {"status": None, "outputs": {}}, "done"),
    ("/headroom/runs/", {"oom": None, "peak_vram_mib": None}, "done"),
    ("/headroom/runs/", {"oom": [3]}, "error"),
])
def test_an_answer_that_nobody_expects_is_an_outcome_and_never_an_exception(
    comfy, worker, monkeypatch, path, found, ending,
):
    answer, one = comfy.answer, order(asked(seed=1))
    found = {one.prompt_id: found} if path == "/history/" else found
    monkeypatch.setattr(comfy, "answer", lambda where, query, body: (
        (200, found) if where.startswith(path) and one.prompt_id in comfy.history
        else answer(where, query, body)))
    outcome = worker.run(one)
    assert outcome.ending == ending and "\n" not in outcome.text
    assert ending == "done" or outcome.text.startswith(f"{comfy.url} answered something strange: ")


def test_a_server_whose_memory_nobody_can_read_does_not_start_and_is_tried_again(
    comfy, made, monkeypatch,
):
    monkeypatch.setattr(comfy, "answer", lambda *_: (200, {"free_mib": 3}))
    with pytest.raises(ServerFailed, match=r"answered something strange: KeyError: .*\.$"):
        made(comfy.url)


def test_a_server_that_is_not_there_is_one_sentence(made):
    comfy = FakeComfy()
    comfy.stop()
    with pytest.raises(ServerFailed, match="does not answer: no connection") as error:
        made(comfy.url)
    assert "\n" not in str(error.value)
