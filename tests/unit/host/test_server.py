"""The hooks in ComfyUI's server, on a stand-in of it: an error of ours costs the user nothing."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support.comfyui import on_comfyui


@pytest.fixture
def host(monkeypatch):
    """headroom/host/server.py, with the web application of a server that is about to start."""
    instance = SimpleNamespace(app=web.Application())
    return on_comfyui(monkeypatch, "server",
                      server={"PromptServer": SimpleNamespace(instance=instance)})


def fails():
    raise ValueError("of ours")


def posted(host, path="/prompt"):
    """The answer of the server to a POST."""
    async def answer(request):
        return web.Response(text="queued")

    async def ask():
        app = host.PromptServer.instance.app
        app.router.add_post(path, answer)
        async with TestClient(TestServer(app)) as client:
            told = await client.post(path)
            return told.status, await told.text()

    return asyncio.run(ask())


def test_an_error_of_ours_before_the_first_request_does_not_keep_a_server_from_starting(
    host, caplog
):
    told = []
    host.before_first_request(fails)
    host.before_first_request(lambda: told.append("next"))
    assert posted(host) == (200, "queued") and told == ["next"]
    assert "of ours" in caplog.text


def test_an_error_of_ours_after_a_post_does_not_change_its_answer(host, caplog):
    host.after_each_post(fails)
    assert posted(host) == (200, "queued")
    assert "of ours" in caplog.text


@pytest.mark.parametrize(("path", "waits"), [
    ("/prompt", True), ("/api/queue", True), ("/interrupt", False), ("/of/another/pack", False)])
def test_only_answers_about_the_queue_wait_until_it_is_on_disk(host, path, waits):
    may_end, told = threading.Event(), []

    def write():
        may_end.wait(10)
        told.append("on disk")

    host.after_each_post(write)
    if waits:
        may_end.set()
    assert posted(host, path) == (200, "queued") and told == ["on disk"] * waits
    may_end.set()


@pytest.mark.parametrize(("ended", "client"), [(None, "runs now"), ("a", "me"), ("b", None)])
def test_an_event_about_a_prompt_that_has_ended_goes_to_who_queued_that_one(host, ended, client):
    sent, extra = [], {"a": {"client_id": "me"}, "b": {}}
    instance = host.PromptServer.instance
    instance.client_id, instance.send_sync = "runs now", lambda *told: sent.append(told)
    instance.prompt_queue = SimpleNamespace(get_history=lambda prompt_id, map_function: {
        prompt_id: {"prompt": (1, prompt_id, {}, extra[prompt_id], [])}})
    host.send_event("headroom.error", {}, ended=ended)
    assert sent == [("headroom.error", {}, client)]


WAITING = ["a", "b"]


@pytest.mark.parametrize(("path", "body"), [
    ("/queue", {"clear": True}), ("/api/queue", {"clear": True, "delete": []}),
    ("/api/jobs/cancel", {"job_ids": ["b", "running", "a"]}),
])
def test_a_queue_is_emptied_by_its_own_route_and_by_cancelling_all_jobs_in_it(host, path, body):
    assert host.empties_queue(path, body, WAITING)


@pytest.mark.parametrize(("path", "body"), [
    ("/queue", {"delete": ["a", "b"]}), ("/queue", ["clear"]), ("/queue", {"clear": False}),
    ("/api/jobs/cancel", {"job_ids": ["a"]}), ("/api/jobs/cancel", {"job_ids": {"a": 1, "b": 1}}),
    ("/api/jobs/a/cancel", {"job_ids": ["a", "b"]}), ("/api/interrupt", {"clear": True}),
])
def test_other_requests_empty_no_queue(host, path, body):
    assert not host.empties_queue(path, body, WAITING)


def test_a_job_that_is_cancelled_alone_with_nothing_waiting_is_an_interrupt_and_no_more(host):
    assert not host.empties_queue("/api/jobs/cancel", {"job_ids": ["running"]}, [])
