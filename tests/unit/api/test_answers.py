"""Every answer is JSON, and everything that goes wrong is one short sentence with a 4xx status."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from headroom.actions.ceiling import Limit
from headroom.api import routes as module
from headroom.api.gate import Gate
from headroom.api.routes import Routes
from headroom.base.said import NotKnown, Refused, said
from headroom.record.highest import KeptPeaks
from headroom.rescue.kept_queue import KeptQueue

ERRORS = [
    (NotKnown(said("No record.")), 404, "No record."),
    (Refused(said("Not now.")), 409, "Not now."),
    (ValueError("Expected this, but got that."), 400, "Expected this, but got that."),
    (OSError(30, "Read-only file system", "/somewhere/secret"), 409, "Read-only file system"),
    (OSError(28, "No space left on device"), 409, "No space left on device"),
    (OSError("the folder is gone"), 409, "the folder is gone"),
    (RuntimeError("CUDA error: an illegal access\nCompile with ..."), 409, "an illegal access"),
    (torch.OutOfMemoryError("Allocation of 2 GiB failed"), 409, "Allocation of 2 GiB failed"),
    (MemoryError(), 409, "MemoryError"),
    (AttributeError("a model of another pack has no 'weight'"), 409, "no 'weight'"),
    (KeyError("x" * 100_000), 409, "xxx"),
    (ValueError("y" * 100_000), 400, "yyy"),
]


class Recorder:
    def runs(self, limit, with_nodes=True):
        return []

    def run(self, prompt_id):
        return None

    def newest_ids(self):
        return []

    def catch_up(self): ...


def no_advice(prompt_id, into_gib):
    raise NotKnown(said("No record of this prompt."))


def asked(*requests, act=None, rescue=lambda prompt_id: {}):
    """The (status, JSON) of each (method, path, body) on a server with our routes."""
    routes = Routes(
        Recorder(), Gate(lambda: False, lambda: True), lambda: (0, 0), rescue, None, no_advice,
        lambda _: {}, KeptPeaks(), KeptQueue(None, Path(), "off"), Limit({}),
        lambda prompt: {},
    )

    async def ask():
        app = web.Application(client_max_size=2**30)
        for method, path, handler in routes.table():
            app.router.add_route(method, path, handler)
        async with TestClient(TestServer(app)) as client:
            answers = []
            for method, path, body in requests:
                async with client.request(method, path, data=body) as answer:
                    assert answer.content_type == "application/json"
                    answers.append((answer.status, json.loads(await answer.read())))
            return answers

    return asyncio.run(ask())


def assert_is_a_sentence(answer):
    assert {"error"} <= set(answer) <= {"error", "said"} and "\n" not in answer["error"]
    assert 5 <= len(answer["error"]) <= 700


@pytest.mark.parametrize(("error", "status", "words"), ERRORS)
@pytest.mark.parametrize("route", ["purge", "offload", "rescue"])
def test_whatever_an_action_raises_becomes_a_sentence(monkeypatch, error, status, words, route):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, "purge", fail)
    monkeypatch.setattr(module, "offload", fail)
    monkeypatch.setattr(module, "patchers_named", lambda ids: ids)
    body = {"purge": {}, "offload": {"model": "m1"}, "rescue": {"prompt_id": "p"}}[route]
    [(found, answer)] = asked(("POST", f"/headroom/{route}", json.dumps(body)), rescue=fail)
    assert found == status and words in answer["error"]
    assert_is_a_sentence(answer)
    assert "/somewhere" not in answer["error"]


@pytest.mark.parametrize(("error", "said_to_pages"), [
    (Refused(said("Not now.")), {"template": "Not now.", "values": {}}),
    (NotKnown(said("No record.")), {"template": "No record.", "values": {}}),
    (ValueError(said("At most {most_mib}.", most_mib=8)),
     {"template": "At most {most_mib}.", "values": {"most_mib": 8}}),
    (OSError("the folder is gone"),
     {"template": "It could not be done ({detail}); the server's log says more.",
      "values": {"detail": "OSError: the folder is gone"}}),
    (ValueError("Expected this, but got that."), None),
])
def test_beside_a_sentence_stand_its_template_and_values_for_pages_in_other_languages(
    error, said_to_pages
):
    def fail(prompt_id):
        raise error

    body = json.dumps({"prompt_id": "p"})
    [(_, answer)] = asked(("POST", "/headroom/rescue", body), rescue=fail)
    assert answer.get("said") == said_to_pages


LONG = "m" * 60_000


@pytest.mark.parametrize(("path", "body"), [
    ("purge", {"unload": "all but keep", "keep": [LONG]}),
    ("purge", {"unload": LONG}),
    ("purge", {LONG: 1}),
    ("purge", {"keep": [LONG] * 1}),
    ("offload", {"model": LONG}),
    ("offload", {"model": "m1", "to": LONG}),
    ("rescue", {"prompt_id": [LONG]}),
    ("reserve", {"mib": LONG}),
    ("reserve", {"mib": -1}),
    ("reserve", {}),
    ("estimate", {}),
    ("estimate", {"prompt": [LONG]}),
    ("estimate", {"prompt": {"1": "m" * (9 * 2**20)}}),
])
def test_long_input_is_not_repeated_in_the_answer(path, body):
    [(status, answer)] = asked(("POST", f"/headroom/{path}", json.dumps(body)))
    assert status == 400 and len(answer["error"]) < 400


def test_95_mib_are_refused_with_a_sentence_and_the_server_goes_on():
    huge = json.dumps({"model": "m" * (95 * 2**20)})
    answers = asked(("POST", "/headroom/offload", huge), ("GET", "/headroom/runs", None))
    assert answers[0][0] == 400 and "64 KiB" in answers[0][1]["error"]
    assert_is_a_sentence(answers[0][1])
    assert answers[1] == (200, {"runs": []})


HOSTILE_BODIES = [
    b"", b"null", b"[]", b"3", b'"text"', b"{", b"\xff\xfe\x00", b"[" * 60_000, b'{"a":' * 10_000,
    b'{"model": 1e999}', b'{"model": "\\ud800"}', b'{"keep": [null]}', b"NaN",
    b'{"only_below_free_mib": 1e400}', b'{"only_below_free_mib": ' + b"9" * 5000 + b"}",
    b'{"unload": {"a": []}}', b'{"free_ram": "true"}', b'{"prompt_id": {"$ne": null}}',
    b'{"prompt_id": ""}', b'{"prompt_id": "\\u0000"}',
]


@pytest.mark.parametrize("body", HOSTILE_BODIES)
@pytest.mark.parametrize("path", ["purge", "offload", "rescue"])
def test_a_hostile_body_never_makes_a_5xx(monkeypatch, path, body):
    report = SimpleNamespace(as_json=lambda: {"headline": "nothing"})
    monkeypatch.setattr(module, "purge", lambda **_: report)
    [(status, answer)] = asked(("POST", f"/headroom/{path}", body))
    assert status in (200, 400, 404, 409)
    if status != 200:
        assert_is_a_sentence(answer)


@pytest.mark.parametrize("path", [
    "/headroom/runs?limit=-1", "/headroom/runs?limit=" + "9" * 5000, "/headroom/runs?limit=%00",
    "/headroom/ready?free_mib=-1", "/headroom/ready?free_mib=" + "9" * 5000,
    "/headroom/ready?free_mib=1e9", "/headroom/ready?free_mib=%D9%A3", "/headroom/ready?free_mib=",
    "/headroom/runs/" + "x" * 5000, "/headroom/runs/%ff%fe", "/headroom/runs/..%2f..%2fetc",
])
def test_a_hostile_path_never_makes_a_5xx(path):
    [(status, answer)] = asked(("GET", path, None))
    assert status in (400, 404)
    assert_is_a_sentence(answer)


@pytest.mark.parametrize("body", [b"", b'{"limit": true}', b'{"limit": "much"}', b'{"limit": null}',
                                  b'{"limit": "10 MiB"}', b'{"mib": 10}'])
def test_a_wrong_limit_is_refused_in_a_sentence_and_changes_nothing(body):
    (refused, told) = asked(("POST", "/headroom/limit", body), ("GET", "/headroom/limit", None))
    assert refused[0] == 400 and refused[1]["error"].startswith("Expected ")
    assert told == (200, {"limit": None, "set_by": "default", "devices": [], "not_limited": []})


@pytest.mark.parametrize("given, limit", [("80%", "80%"), (10, "10 GiB"), ("7.5 gib", "7.5 GiB"),
                                          ("off", "off")])
def test_a_limit_is_told_as_it_counts(given, limit):
    body = json.dumps({"limit": given})
    ((status, told),) = asked(("POST", "/headroom/limit", body))
    assert (status, told["limit"], told["set_by"]) == (200, limit, "HTTP")
