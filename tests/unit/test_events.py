"""The events of a server that goes away while somebody listens."""

import pytest

websocket = pytest.importorskip("websocket")

from devtools.events import EventStream  # noqa: E402


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
