"""A small HTTP client for one ComfyUI server."""

import functools
import json
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import Any

from .events import EventStream, Unfinished

POLL_SECONDS = 0.05
# The node pack's table of errors; read, since importing the pack takes torch.
ERRORS = Path(__file__).resolve().parent.parent / "headroom" / "base" / "errors.json"


class Unexpected(RuntimeError):
    """A status that a working ComfyUI does not answer."""


class PromptInvalid(RuntimeError):
    """The server refused the prompt; `details` is its JSON answer, by node where it names one."""

    def __init__(self, status: int, details: Any) -> None:
        super().__init__(f"The server refused the prompt with status {status}: {details}")
        self.status = status
        self.details = details


class PromptFailed(RuntimeError):
    """A node raised while the prompt ran.

    `node_id`, `node_type`, `exception_type`, `exception_message` and `traceback` are the server's
    own words, `entry` is the whole history entry.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        error = failure_of(entry)
        self.entry = entry
        self.node_id = str(error.get("node_id", ""))
        self.node_type = str(error.get("node_type", ""))
        self.exception_type = str(error.get("exception_type", "interrupted"))
        self.exception_message = str(error.get("exception_message", ""))
        self.traceback = "".join(error.get("traceback", []))
        super().__init__(
            f"Node {self.node_id} ({self.node_type}) failed with {self.exception_type}: "
            f"{self.exception_message.strip()}"
        )

    @property
    def out_of_memory(self) -> bool:
        """Whether the GPU's memory ran out, also where a library or OOM Guard says so."""
        told = f"{self.exception_type.rpartition('.')[2]}: {self.exception_message}"
        family = next((family for pattern, family in _families() if pattern.search(told)), "")
        return family == "device memory"


@functools.cache
def _families() -> list[tuple[re.Pattern[str], str]]:
    """What an error's text looks like, and its family; the first that is found counts."""
    rows = json.loads(ERRORS.read_text(encoding="utf-8"))["errors"]
    return [(re.compile(row["pattern"], re.IGNORECASE), row["family"]) for row in rows]


class PromptInterrupted(PromptFailed):
    """The prompt was interrupted before its end."""


def failure_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The `execution_error` or `execution_interrupted` message of a history entry, or {}."""
    for name, message in entry.get("status", {}).get("messages", []):
        if name in ("execution_error", "execution_interrupted"):
            return dict(message)
    return {}


def was_interrupted(entry: Mapping[str, Any]) -> bool:
    messages = entry.get("status", {}).get("messages", [])
    return any(name == "execution_interrupted" for name, _ in messages)


def failed(entry: Mapping[str, Any]) -> bool:
    """Whether a node raised, or the prompt was interrupted."""
    return bool(entry.get("status", {}).get("status_str") == "error")


class Client:
    """Talks to the server at `url`, for example `http://127.0.0.1:8188`."""

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout

    # -- plain HTTP ---------------------------------------------------------------------------

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Message, bytes]:
        """Status, headers and body of one request; an error status is an answer, not an error.

        `body` is sent as JSON, bytes are sent as they are.
        """
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = {} if data is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(
            self.url + path, data, {**kind, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON body (text where it is not JSON)."""
        status, _, data = self.request("GET", path, headers=headers)
        return status, _decoded(data)

    def get_json(self, path: str) -> Any:
        """The JSON body; Unexpected for any status but 200."""
        status, answer = self.get(path)
        if status != 200:
            raise Unexpected(f"GET {path} answered {status}: {answer}")
        return answer

    def get_bytes(self, path: str) -> bytes:
        """The body as it came, for images; RuntimeError for any status but 200."""
        status, _, data = self.request("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path} answered {status}.")
        return data

    def post_json(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON body (text where it is not JSON)."""
        status, _, data = self.request("POST", path, body, headers)
        return status, _decoded(data)

    def post_when_idle(self, path: str, body: Any, timeout: float = 60.0) -> Any:
        """The JSON answer of a route that refuses (409) while a prompt runs, asked until it acts.

        ComfyUI shows a prompt's history a moment before its worker has finished with it.
        RuntimeError for any other status, and when the server is not idle after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        status, answer = self.post_json(path, body)
        while status == 409 and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            status, answer = self.post_json(path, body)
        if status != 200:
            raise RuntimeError(f"POST {path} answered {status}: {answer}")
        return answer

    # -- prompts ------------------------------------------------------------------------------

    def queue(self, prompt: Mapping[str, Any], client_id: str | None = None,
              extra_data: Mapping[str, Any] | None = None) -> str:
        """Queue an API-format prompt and return its id.

        PromptInvalid when the server refuses it or some outputs of it (the others run then).
        """
        more = {"client_id": client_id, "extra_data": extra_data}
        given = {name: value for name, value in more.items() if value is not None}
        status, answer = self.post_json("/prompt", {"prompt": prompt, **given})
        if status != 200 or answer.get("node_errors"):
            raise PromptInvalid(status, answer)
        return str(answer["prompt_id"])

    def history(self, prompt_id: str) -> dict[str, Any] | None:
        """The history entry of a finished prompt, or None while it waits or runs."""
        entry = self.get_json(f"/history/{prompt_id}").get(prompt_id)
        return None if entry is None else dict(entry)

    def wait(self, prompt_id: str, timeout: float = 600.0) -> dict[str, Any]:
        """The history entry once the prompt has finished, however it ended.

        Unfinished, a TimeoutError, when it has not finished after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while (entry := self.history(prompt_id)) is None:
            if time.monotonic() > deadline:
                raise Unfinished(prompt_id, timeout)
            time.sleep(POLL_SECONDS)
        return entry

    def run(
        self, prompt: Mapping[str, Any], *, timeout: float = 600.0, **queue_arguments: Any
    ) -> dict[str, Any]:
        """Queue, wait, and return the history entry; its key `prompt_id` is added.

        PromptFailed when a node raised, PromptInterrupted when it was interrupted.
        """
        prompt_id = self.queue(prompt, **queue_arguments)
        entry = self.wait(prompt_id, timeout)
        entry["prompt_id"] = prompt_id
        if was_interrupted(entry):
            raise PromptInterrupted(entry)
        if failed(entry):
            raise PromptFailed(entry)
        return entry

    def free(self, unload_models: bool = True, free_memory: bool = True) -> None:
        """Ask for the models, the node cache or both to be dropped after the current prompt."""
        self._post("/free", {"unload_models": unload_models, "free_memory": free_memory})

    def interrupt(self) -> None:
        self._post("/interrupt", {})

    def _post(self, path: str, body: Any) -> None:
        status, answer = self.post_json(path, body)
        if status != 200:
            raise RuntimeError(f"POST {path} answered {status}: {answer}")

    def events(self, client_id: str | None = None) -> EventStream:
        """Connect to the server's events; ImportError without the `websocket-client` package.

        Open the stream before queueing with the same `client_id`, so that no event is missed.
        """
        return EventStream(self.url, client_id or uuid.uuid4().hex)


def _decoded(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def node_texts(entry: Mapping[str, Any]) -> dict[str, str]:
    """The `ui` text of every node of a history entry that has one, by node id."""
    return {
        node_id: "\n".join(str(line) for line in output["text"])
        for node_id, output in entry.get("outputs", {}).items()
        if output.get("text")
    }


def cached_nodes(entry: Mapping[str, Any]) -> set[str]:
    """The ids of the nodes that this run took from the node cache."""
    for name, message in entry.get("status", {}).get("messages", []):
        if name == "execution_cached":
            return {str(node_id) for node_id in message.get("nodes", [])}
    return set()
