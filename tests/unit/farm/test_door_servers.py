"""Servers that fall silent, sleep, leave or come back behind a door, and a door that does."""

import sqlite3

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.doors import ID, IMPATIENT, hold, prompt  # noqa: E402

from fake_comfy import FakeComfy  # noqa: E402
from farm.process import free_port  # noqa: E402
from farm.store import Store  # noqa: E402
from farm.worker import Patience  # noqa: E402
from tools.waiting import wait_until  # noqa: E402


def test_a_door_ends_soon_though_a_server_hangs(servers, opened, monkeypatch):
    monkeypatch.setattr("farm.comfy.REQUEST_SECONDS", 0.5)
    [comfy] = servers(1000)
    door = opened(comfy, patience=Patience(start=600, silent=600, prompt=600))
    hold(door, comfy)
    comfy.silent.set()
    door.close()  # in seconds, or this test runs into the limit of the whole run


def test_a_server_that_falls_silent_gives_its_prompt_back(servers, opened):
    hung, whole = servers(1000, 2000)
    door = opened(hung, whole, patience=IMPATIENT)
    hung.goes_on.clear()
    busy = door.queue(prompt(seed=5))
    wait_until(lambda: hung.prompts)
    hung.silent.set()
    entry = door.entry(busy)
    assert entry["status"]["status_str"] == "success"
    assert entry["outputs"]["1"]["images"][0]["subfolder"].endswith(whole.url.rpartition(":")[2])
    hung.goes_on.set()
    hung.silent.clear()
    wait_until(lambda: door.states() == ["idle", "idle"])


def test_a_server_that_may_sleep_starts_for_a_prompt_or_a_page_and_its_end_is_no_loss(
    servers, opened,
):
    small, large = servers(500, 4000)
    names = {"small": small.url, "large": large.url}
    door = opened(names=names, sleepers=set(names), waits=False)
    assert door.states() == ["asleep", "asleep"] and not small.asked + large.asked
    assert door.entry(door.queue(prompt(seed=1)))["farm"]["server"] == "small"
    assert door.states() == ["idle", "asleep"]  # one prompt, one server
    assert door.entry(door.queue(prompt(mib=3000)))["farm"]["server"] == "large"
    for comfy in (small, large):
        for heard in list(comfy.sockets.values()):
            heard.shutdown(2)  # as where Ray Serve has ended them
    wait_until(lambda: door.states() == ["asleep", "asleep"])
    assert [one["losses"] for one in door.get("/farm")["servers"]] == [0, 0]
    assert door.get("/object_info")["of"] == 500  # the page wants a server too
    assert door.states()[1] == "asleep"


def test_accepted_prompts_wait_for_a_server_that_is_not_there_yet(opened):
    port = free_port()
    door = opened(names=[f"http://127.0.0.1:{port}"], waits=False)
    status, answer = door.post("/prompt", {"prompt": prompt(seed=4), "prompt_id": ID})
    assert status == 200
    again = door.post("/prompt", {"prompt": prompt(seed=4), "prompt_id": ID})[1]
    assert again["number"] == answer["number"]
    assert door.post("/prompt", {"prompt": prompt(seed=5), "prompt_id": ID})[0] == 400
    assert door.client.get("/object_info")[0] == 503
    back = FakeComfy(1000, port)
    assert door.entry(ID)["status"]["status_str"] == "success"
    back.stop()


def test_a_door_that_comes_back_goes_on_and_queues_nothing_twice(servers, opened):
    [comfy] = servers(1000)
    door = opened(comfy)
    done = door.queue(prompt(seed=1))
    door.entry(done)
    comfy.goes_on.clear()
    running = door.queue(prompt(seed=2))
    wait_until(lambda: comfy.prompts)
    waiting = door.queue(prompt(seed=3))
    door.close()
    comfy.goes_on.set()
    again = opened(comfy, waits=False)
    assert [again.entry(one)["status"]["status_str"] for one in (done, running, waiting)] == [
        "success"] * 3
    assert len(comfy.posts("/prompt")) == 3


@pytest.mark.parametrize("stays, sleepers", [
    (False, ()), (True, ()), (True, ("other",)), (True, ("ran", "other")),
])
def test_prompts_of_a_server_that_left_the_farm_or_does_not_come_back_are_run_by_another(
    servers, opened, stays, sleepers,
):
    ran, other = servers(1000, 1000)
    door = opened(names={"ran": ran.url})
    running = hold(door, ran)
    door.close()
    ran.silent.set()  # it is looked for until it has said nothing for a second
    again = opened(names={**({"ran": ran.url} if stays else {}), "other": other.url}, waits=False,
                   sleepers=sleepers, patience=IMPATIENT)
    wait_until(lambda: other.prompts)
    again.post("/interrupt", {})
    assert again.entry(running)


@pytest.fixture
def failing_once(monkeypatch):
    """Has a method of the store fail once, after it has written."""
    monkeypatch.setattr("farm.seat.STORE_SECONDS", 0.1)

    def fail(name):
        method = getattr(Store, name)

        def fails(*about):
            monkeypatch.setattr(Store, name, method)
            method(*about)
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(Store, name, fails)

    return fail


@pytest.mark.parametrize("name", ["ends", "begins", "learn", "forgotten"])
def test_an_error_of_the_disk_loses_no_prompt_and_runs_none_twice(
    servers, opened, failing_once, name,
):
    one, other = servers(1000, 2000)
    door = opened(one, other)
    for comfy in (one, other):
        comfy.goes_on.clear()
    prompts = [door.queue(prompt(seed=n)) for n in range(6)]
    wait_until(lambda: one.prompts and other.prompts)
    failing_once(name)
    for comfy in (one, other):
        comfy.goes_on.set()
    assert {door.entry(key)["status"]["status_str"] for key in prompts} == {"success"}
    assert len(one.posts("/prompt") + other.posts("/prompt")) == 6
    assert door.states() == ["idle", "idle"] and door.get("/farm")["remaining"] == 0
    assert any("OperationalError: disk I/O error" in line for line in door.said)


@pytest.mark.parametrize("name", ["accept", "begins", "drop"])
def test_a_client_is_told_of_an_error_of_the_disk_and_may_ask_again(
    servers, opened, failing_once, name,
):
    [comfy] = servers(1000)
    door = opened(comfy)
    if name == "drop":
        hold(door, comfy)
        waits = door.queue(prompt(seed=1))
    failing_once(name)
    path, body = ("/queue", {"delete": [waits]}) if name == "drop" else (
        "/prompt", {"prompt": prompt(seed=1), "prompt_id": ID})
    assert door.post(path, body)[0] == 500
    if name == "drop":
        door.post("/interrupt")
        assert door.entry(waits)["status"]["status_str"] == "success"
    else:
        assert door.post(path, body)[0] == 200
        assert door.entry(ID)["status"]["status_str"] == "success"


def test_a_server_is_looked_for_though_the_disk_failed_when_it_went(opened, failing_once, servers):
    [comfy] = servers(1000)
    door = opened(comfy)
    busy = hold(door, comfy)
    failing_once("abandon")
    comfy.prompts.clear()
    comfy.end = lambda *_, **__: None  # no history: it was started anew
    comfy.sockets.popitem()[1].shutdown(2)
    wait_until(lambda: len(comfy.posts("/prompt")) == 2)
    door.post("/queue", {"clear": True})
    assert door.get(f"/api/jobs/{busy}")["status"] == "in_progress"
