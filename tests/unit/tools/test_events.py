"""The events of a server that goes away while somebody listens."""

import itertools
import json
import ssl

import pytest

websocket = pytest.importorskip("websocket")

from tools import events  # noqa: E402
from tools.events import EventStream, NoEvents, Unfinished  # noqa: E402


class Gone:
    def settimeout(self, seconds):
        pass

    def recv(self):
        raise websocket.WebSocketConnectionClosedException("lost")


def test_a_server_that_goes_away_is_a_connection_error(monkeypatch):
    monkeypatch.setattr(websocket, "create_connection", lambda *_, **__: Gone())
    stream = EventStream("http://127.0.0.1:1", "me")
    with pytest.raises(ConnectionError, match="the server closed the connection"):
        list(stream.until_finished("p"))


def test_events_of_others_do_not_lengthen_the_wait(monkeypatch):
    class Chatty(Gone):
        def recv(self):
            return json.dumps({"type": "monitor", "data": {"prompt_id": "another"}})

    monkeypatch.setattr(websocket, "create_connection", lambda *_, **__: Chatty())
    ticks = itertools.count()
    monkeypatch.setattr(events.time, "monotonic", lambda: float(next(ticks)))
    with pytest.raises(Unfinished, match="Prompt p did not finish within 60 s"):
        list(EventStream("http://127.0.0.1:1", "me").until_finished("p", 60))


def test_a_certificate_that_is_not_trusted_leaves_the_sentence_about_it_to_http(monkeypatch):
    def untrusted(*_, **__):
        raise ssl.SSLCertVerificationError("self-signed certificate")

    monkeypatch.setattr(websocket, "create_connection", untrusted)
    with pytest.raises(NoEvents, match="self-signed certificate"):
        EventStream("https://127.0.0.1:1", "me")
