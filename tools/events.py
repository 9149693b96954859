"""The events of a running ComfyUI, over its websocket."""

import json
import ssl
import time
from collections.abc import Iterator
from typing import Any

FINISHED = ("execution_success", "execution_error", "execution_interrupted")


class NoEvents(RuntimeError):
    """What answers there has no websocket of ComfyUI: a proxy, or another program; or its
    certificate is not trusted.
    """


class Unfinished(TimeoutError):
    """A prompt that did not end within the time that it was given."""

    def __init__(self, prompt_id: str, seconds: float) -> None:
        super().__init__(f"Prompt {prompt_id} did not finish within {seconds:g} s.")


class EventStream:
    """One open websocket; needs the `websocket-client` package (ImportError without it).

    NoEvents where the server offers none.
    """

    def __init__(self, url: str, client_id: str, timeout: float = 10.0) -> None:
        import websocket

        self.client_id = client_id
        address = url.replace("http", "ws", 1) + f"/ws?clientId={client_id}"
        self._timed_out: type[Exception] = websocket.WebSocketTimeoutException
        self._closed: type[Exception] = websocket.WebSocketConnectionClosedException
        try:
            self._socket = websocket.create_connection(address, timeout=timeout)
        except (websocket.WebSocketException, ssl.SSLError) as error:
            raise NoEvents(str(error)) from error

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """The next event as {"type", "data"}, or None when none came in `timeout` seconds.

        ConnectionError when the server has gone.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                message = self._socket.recv()
            except self._timed_out:
                return None
            except self._closed as error:
                raise ConnectionError("the server closed the connection") from error
            if isinstance(message, str) and message:  # previews come as bytes
                return dict(json.loads(message))
        return None

    def until_finished(self, prompt_id: str, timeout: float = 120.0) -> Iterator[dict[str, Any]]:
        """Every event of one prompt up to its end; Unfinished after `timeout` seconds in all.

        Packs send events of their own all the time, so waiting for silence would not end.
        """
        deadline = time.monotonic() + timeout
        while (event := self.receive(deadline - time.monotonic())) is not None:
            data = event.get("data") or {}
            if data.get("prompt_id") not in (prompt_id, None):
                continue
            yield event
            if event.get("type") in FINISHED and data.get("prompt_id") == prompt_id:
                return
        raise Unfinished(prompt_id, timeout)
