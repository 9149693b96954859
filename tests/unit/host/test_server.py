"""The hooks in ComfyUI's server, on a stand-in of it: an error of ours costs the user nothing."""

import asyncio
import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer


@pytest.fixture
def host(monkeypatch):
    """headroom/host/server.py, with the web application of a server that is about to start."""
    prompt_server = SimpleNamespace(instance=SimpleNamespace(app=web.Application()))
    parts = {"server": {"PromptServer": prompt_server}, "headroom.host.core": {"accepts": None}}
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "headroom.host.server", raising=False)
    yield importlib.import_module("headroom.host.server")
    del sys.modules["headroom.host.server"]


def fails():
    raise ValueError("of ours")


def posted(host):
    """The answer of the server to a POST."""
    async def answer(request):
        return web.Response(text="queued")

    async def ask():
        app = host.PromptServer.instance.app
        app.router.add_post("/prompt", answer)
        async with TestClient(TestServer(app)) as client:
            told = await client.post("/prompt")
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
