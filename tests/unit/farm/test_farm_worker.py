"""What one server of a farm does with a prompt, over HTTP to a server that computes nothing."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from support import fake_comfy
from support.fake_comfy import FakeComfy

from farm.keys import prompt_id_of
from farm.prompts import asked_for
from farm.servers import ServerSpec
from farm.words import Facts, Order
from farm.worker import Patience, ServerFailed, Worker

QUICK = Patience(start=30.0, silent=0.6, prompt=20.0)


@pytest.fixture
def comfy():
    server = FakeComfy(1000)
    yield server
    server.silent.clear()
    server.stop()


@pytest.fixture
def worker(comfy, tmp_path):
    return made(comfy.url, tmp_path)


def made(url, results, patience=QUICK, seen=True):
    (results / "token").touch()
    found = Worker(ServerSpec(url, url), patience, str(results), "token" if seen else "none")
    found.start()
    return found


def asked(extra=None, kind="Fake", **inputs):
    prompt = {"1": {"class_type": kind, "inputs": inputs}}
    return asked_for("p", {"prompt": prompt, "extra_data": extra or {}})


def order(one, attempt=0, **options):
    return Order(one, prompt_id_of(one.key, "a", attempt), **options)


def test_a_server_tells_its_size_and_its_room(comfy, worker):
    assert worker.start() == Facts(1000, 1000, True)
    comfy.other_mib = 300
    assert worker.start() == Facts(1000, 700, True)


def test_a_stock_server_is_used_too(tmp_path):
    stock = FakeComfy(1000, headroom=False)
    try:
        worker = made(stock.url, tmp_path)
        assert worker.start() == Facts(1000, None, False)
        outcome = worker.run(order(asked(mib=500), room_mib=700))
        assert (outcome.ending, outcome.needed_mib) == ("done", None)
    finally:
        stock.stop()


def test_a_finished_prompt_has_its_files_its_need_and_its_record(comfy, worker):
    comfy.other_mib = 100
    worker.start()
    outcome = worker.run(order(asked(mib=500, seed=7)))
    assert (outcome.ending, outcome.needed_mib, outcome.rescued) == ("done", 500, False)
    assert Path(outcome.folder, "fake_00001_.txt").read_bytes() == b"7"
    assert not Path(outcome.folder, "preview.png").exists()
    assert outcome.facts == Facts(1000, 900, True)


def test_a_driver_that_does_not_see_the_folder_gets_the_files(comfy, tmp_path):
    outcome = made(comfy.url, tmp_path, seen=False).run(order(asked(seed=7)))
    assert outcome.folder == "" and outcome.payload["fake_00001_.txt"] == b"7"
    assert "result.json" in outcome.payload


def test_a_prompt_does_not_begin_where_there_is_no_room(comfy, worker):
    comfy.other_mib = 600
    outcome = worker.run(order(asked(mib=500), room_mib=500))
    assert (outcome.ending, outcome.facts.room_mib) == ("no room", 400)
    assert comfy.posts("/prompt") == []


def test_out_of_memory_is_told_apart_from_other_errors(worker):
    outcome = worker.run(order(asked(mib=5000)))
    assert outcome.ending == "out of memory" and "node 1 (Fake)" in outcome.text
    assert worker.run(order(asked(raises=True))).ending == "error"


def test_a_prompt_is_rescued_where_it_is_only_if_that_is_wanted(worker):
    one = asked(mib=1500)
    assert worker.run(order(one)).ending == "out of memory"
    outcome = worker.run(order(one, 1, rescue=True))
    assert (outcome.ending, outcome.rescued) == ("done", True)
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
    threading.Timer(0.2, comfy.work, (running.prompt_id, running.asked.prompt, {})).start()
    assert worker.run(running).ending == "done"
    assert len(comfy.posts("/prompt")) == 1


def test_what_was_abandoned_there_is_stopped_first(comfy, worker):
    comfy.prompts["old"] = {}
    assert worker.run(order(asked(), abandoned=("old", "older"))).ending == "done"
    assert comfy.posts("/queue") == [{"delete": ["old", "older"]}]
    assert comfy.posts("/interrupt") == [{"prompt_id": "old"}]


def test_a_file_that_is_not_there_is_an_error_of_the_prompt_and_not_of_the_server(comfy, worker):
    comfy.files = type("Lossy", (dict,), {"__setitem__": lambda *_: None})()
    outcome = worker.run(order(asked()))
    assert outcome.ending == "error" and "/view" in outcome.text


def test_a_prompt_that_takes_too_long_is_stopped(comfy, tmp_path):
    worker = made(comfy.url, tmp_path, Patience(silent=5.0, prompt=0.2))
    outcome = worker.run(order(asked(seconds=30)))
    assert outcome.ending == "timeout"
    assert comfy.prompts == {}


def test_somebodys_interrupt_is_told_apart(comfy, worker):
    one = order(asked(seconds=10))
    threading.Timer(0.3, comfy.prompts.clear).start()
    assert worker.run(one).ending == "interrupted"


def test_a_server_that_falls_silent_is_lost_and_is_had_back(comfy, worker):
    threading.Timer(0.2, comfy.silent.set).start()
    outcome = worker.run(order(asked(seconds=1)))
    assert outcome.ending == "lost" and "has not answered" in outcome.text
    with pytest.raises(ServerFailed, match="does not answer"):
        worker.start()
    comfy.silent.clear()
    assert worker.start() == Facts(1000, 1000, True)


def test_a_server_that_was_started_anew_meanwhile_is_noticed(comfy, worker, monkeypatch):
    monkeypatch.setattr("farm.comfy.PAUSE_SECONDS", 0.01)
    threading.Timer(0.1, lambda: (comfy.prompts.clear(), setattr(comfy, "history", {}))).start()
    monkeypatch.setattr(comfy, "end", lambda *_, **__: None)
    outcome = worker.run(order(asked(seconds=30)))
    assert outcome.ending == "lost" and "started anew" in outcome.text


def test_a_server_that_is_not_there_is_one_sentence(tmp_path):
    comfy = FakeComfy()
    comfy.stop()
    with pytest.raises(ServerFailed, match="does not answer: no connection") as error:
        made(comfy.url, tmp_path)
    assert "\n" not in str(error.value)


# ---------------------------------------------------- servers that the farm starts

FAKE = str(Path(fake_comfy.__file__))
posix = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def started(tmp_path, command):
    (tmp_path / "token").touch()
    spec = ServerSpec("own", "", tuple(command), str(tmp_path))
    return Worker(spec, QUICK, str(tmp_path), "token")


def own(tmp_path):
    return started(tmp_path, [sys.executable, FAKE, "--port", "{port}", "--mib", "700"])


@posix
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_a_started_server_that_dies_or_hangs_is_lost_and_started_anew(tmp_path, sign):
    worker = own(tmp_path)
    try:
        assert worker.start() == Facts(700, 700, True)
        first = worker._process
        threading.Timer(0.2, os.kill, (first.pid, sign)).start()
        assert worker.run(order(asked(seconds=5))).ending == "lost"
        assert worker.start() == Facts(700, 700, True)
        assert first.poll() is not None
        assert worker.run(order(asked(seed=1))).ending == "done"
    finally:
        worker.stop()
    assert worker._process is None


def test_a_command_that_fails_is_one_sentence_with_the_last_word_of_its_log(tmp_path):
    worker = started(tmp_path, [sys.executable, "-c", "raise SystemExit('no {port}')"])
    with pytest.raises(ServerFailed, match="own does not answer: .* ends with: no [0-9]+") as error:
        worker.start()
    assert "\n" not in str(error.value)
    with pytest.raises(ServerFailed, match="own cannot be started: No such file"):
        started(tmp_path, [str(tmp_path / "none"), "{port}"]).start()


@posix
def test_a_started_server_ends_with_the_process_that_started_it(tmp_path):
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom farm import process\n"
        "child = process.start([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " Path('.'), {}, Path(sys.argv[2]))\nprint(child.pid, flush=True); time.sleep(60)\n"
    )
    import subprocess

    root = Path(sys.modules["farm"].__file__).parent.parent
    parent = subprocess.Popen([sys.executable, "-c", code, str(root), str(tmp_path / "log")],
                              stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    if sys.platform != "linux":
        os.kill(pid, signal.SIGKILL)
        pytest.skip("only Linux ends a child with its parent")
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and "Z" not in state_of(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
