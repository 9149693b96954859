"""Everything of the pack that measures: each node's action, and each route with its answer."""

import asyncio
import json
from pathlib import Path
from unittest import mock

import torch
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from headroom import cast, offload, purge, snapshot, to_cpu
from headroom.actions import reserve
from headroom.actions.ceiling import Limit
from headroom.actions.to_cpu import move_to_cpu
from headroom.advise.advisor import Advisor
from headroom.api import ready
from headroom.api.gate import Gate
from headroom.api.metrics import Metrics, gauges
from headroom.api.routes import Routes
from headroom.encode.encode import encode_to_cpu
from headroom.guard.call import GuardOptions
from headroom.guard.errors import OomGuardError
from headroom.guard.recover import recover
from headroom.host.types import Outcome
from headroom.record.chart import report_image
from headroom.record.highest import KeptPeaks
from headroom.record.probe import Probe
from headroom.record.recorder import Recorder
from headroom.record.text import record_text
from headroom.rescue.kept_queue import KeptQueue
from support.calls import Changing
from support.hosts import Host
from support.models import Encoder
from support.recorder import play

ASKED = [
    ("GET", "/headroom/memory", None), ("GET", "/headroom/runs", None),
    ("GET", "/headroom/runs/p", None), ("GET", "/headroom/runs/p/advice", None),
    ("GET", "/headroom/runs/p/advice?into_gib=2", None), ("GET", "/headroom/ready", None),
    ("GET", "/headroom/ready?free_mib=6000", None), ("GET", "/headroom/metrics", None),
    ("POST", "/headroom/purge", {}), ("POST", "/headroom/purge", {"free_mib": 10}),
    ("POST", "/headroom/purge", {"only_below_free_mib": 10}),
    ("POST", "/headroom/offload", {"model": "m"}), ("POST", "/headroom/reserve", {"mib": 100}),
    ("POST", "/headroom/rescue", {"prompt_id": "p"}), ("POST", "/headroom/peaks", {}),
    ("GET", "/headroom/limit", None), ("POST", "/headroom/limit", {"limit": "off"}),
]


def fails():
    raise torch.OutOfMemoryError("Tried to allocate 3.00 GiB.")


def actions(device):
    """(name, call) of what each node does that measures; a call returns its report's text."""

    def guard():
        try:
            recover(Changing(fails, light=1), GuardOptions())
        except OomGuardError as error:
            return str(error)

    return [
        ("Purge VRAM", lambda: purge(free_ram=True, reset_node_cache=True).text),
        ("Purge VRAM no models", lambda: purge("no models").text),
        ("Purge VRAM only_below_free_mib", lambda: purge(only_below_free_mib=100).text),
        ("Offload Model", lambda: offload(torch.nn.Linear(2, 2)).text),
        ("Offload Model to disk", lambda: offload(torch.nn.Linear(2, 2), to="disk").text),
        ("Offload Model every other", lambda: offload(torch.nn.Linear(2, 2),
                                                      "every other model").text),
        ("Cast bf16", lambda: cast(torch.nn.Linear(2, 2)).report.text),
        ("Encode to CPU", lambda: encode_to_cpu(Encoder(), ["a"]).report.text),
        ("Move to CPU", lambda: move_to_cpu([torch.zeros(2)])[1].text),
        ("to_cpu", lambda: to_cpu([torch.zeros(2)]).text),
        ("OOM Guard", guard),
        ("Memory Report", lambda: _report(device)),
    ]


def recorder():
    """A recorder that has seen one prompt with one node."""
    found = Recorder(Probe(), lambda prompt_id: Outcome("success"))
    play(found, "p", "1")
    return found


def _report(device):
    run = recorder().run("p")
    assert report_image(run).shape == (1, 640, 1200, 3)
    json.dumps(run, allow_nan=False)
    return record_text(run)


def answers(device, free_bytes):
    """{(method, path, body): (status, text)} of every route, on a server of this device."""
    host, found = Host(device=device, free_bytes=free_bytes), recorder()
    advisor = Advisor(found, lambda prompt_id: {}, mock.Mock())
    metrics = Metrics(lambda: gauges(lambda: (0, 0)), lambda prompt_id: {})
    routes = Routes(found, Gate(lambda: False, lambda: True), lambda: (0, 0), lambda _: {}, metrics,
                    advisor.advice, advisor.more_of, KeptPeaks(),
                    KeptQueue(None, Path(), "off"), Limit({}), advisor.estimate)

    async def ask():
        app = web.Application()
        for method, path, handler in routes.table():
            app.router.add_route(method, path, handler)
        told = {}
        async with TestClient(TestServer(app)) as client:
            for method, path, body in ASKED:
                async with client.request(method, path, json=body) as answer:
                    told[method, path, str(body)] = answer.status, await answer.text()
        return told

    with (mock.patch.object(ready, "current_host", lambda: host),
          mock.patch.object(reserve, "current_host", lambda: host),
          mock.patch("headroom.api.routes.patchers_named", lambda ids: [torch.nn.Linear(2, 2)])):
        return asyncio.run(ask())


def check_everything(device):
    """Do and ask all of it, on a device that may not tell what is free there."""
    for name, act in actions(device):
        text = act()
        assert text and "-0.0" not in text and "None" not in text, (name, text)
        assert "no GPU" not in text and "runs on the CPU" not in text, (name, text)
    unknown = snapshot().devices[0].available_bytes is None
    for asked, (status, text) in answers(device, None).items():
        wanted = {"/headroom/ready?free_mib=6000": 503}.get(asked[1], 200)
        if unknown and asked[2] == "{'free_mib': 10}":
            wanted = 400
        assert status == wanted, (asked, text)
        if "metrics" not in asked[1]:
            json.loads(text, parse_constant=_no_json)


def _no_json(word):
    raise AssertionError(f"{word} is no JSON")
