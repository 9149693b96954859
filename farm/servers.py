"""Which servers a farm has: those that run are adopted by their URL, others are started."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .words import FarmError, Json

PORT, HOST = "{port}", "{host}"
KEYS = {"name", "url", "command", "folder", "env", "gpus", "count", "resources", "idle_seconds"}


@dataclass(frozen=True)
class ServerSpec:
    """A server: at `url`, or made by `command`, in which `{port}` stands for a free port.

    `{host}` stands for the address of its machine; without it only that machine reaches it.
    Ray gives it `gpus` GPUs (a part of one where several share it) and `resources` of a machine.
    It ends after `idle_seconds` without work, and starts when a prompt wants it; 0: it stays.
    """

    name: str
    url: str = ""
    command: tuple[str, ...] = ()
    folder: str = "."
    env: dict[str, str] = field(default_factory=dict)
    gpus: float = 0.0
    resources: dict[str, float] = field(default_factory=dict)
    idle_seconds: float = 0.0

    @property
    def is_started(self) -> bool:
        """Whether the farm starts it, and so may end it."""
        return bool(self.command)


def read_servers(words: Iterable[str]) -> list[ServerSpec]:
    """Return the servers that these URLs and JSON files name; FarmError for a bad one."""
    found: list[ServerSpec] = []
    for word in words:
        if word.startswith(("http://", "https://")):
            found.append(_adopted(word, word))
        else:
            found += _from_file(Path(word))
    if not found:
        raise FarmError("A farm wants a server, but got none; name one with --servers.")
    names = [spec.name for spec in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FarmError(f"Two servers are called {twice}; give each a name of its own.")
    return found


def _adopted(url: str, where: str, name: str = "") -> ServerSpec:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise FarmError(f"{where} is no URL of a server, such as http://gpu-box:8188.")
    return ServerSpec(name or url.rstrip("/"), url.rstrip("/"))


def _from_file(path: Path) -> list[ServerSpec]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FarmError(
            f"{path} is neither a URL (http://…) nor a file that can be read: {error.strerror}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FarmError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, list):
        raise FarmError(f"{path} is expected to be a list of servers, but is something else.")
    return [spec for number, item in enumerate(data) for spec in _entry(item, path, number)]


def _entry(item: Any, path: Path, number: int) -> list[ServerSpec]:
    where = f"server {number} of {path}"
    if not isinstance(item, dict) or set(item) - KEYS or ("url" in item) == ("command" in item):
        raise FarmError(
            f"{where} is expected to be an object with `url` or `command`, and at most "
            f"{', '.join(sorted(KEYS))}."
        )
    if "url" in item:
        return [_adopted(str(item["url"]), f"`url` of {where}", str(item.get("name", "")))]
    count = item.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10_000:
        raise FarmError(f"`count` of {where} is expected to be a number from 1 to 10000.")
    spec = _started(item, where, str(item.get("name", f"server{number}")))
    if count == 1:
        return [spec]
    return [replace(spec, name=f"{spec.name}-{copy}") for copy in range(count)]


def _started(item: Json, where: str, name: str) -> ServerSpec:
    command, env = item["command"], item.get("env", {})
    if not _are_texts(command) or not command or not any(PORT in word for word in command):
        raise FarmError(
            f"`command` of {where} is expected to be a list of words with {PORT} for the port."
        )
    if not isinstance(env, dict) or not _are_texts([*env, *env.values()]):
        raise FarmError(f"`env` of {where} is expected to be an object of texts.")
    gpus, resources = item.get("gpus", 1.0), item.get("resources", {})
    idle_seconds = item.get("idle_seconds", 0.0)
    if not isinstance(resources, dict) or not all(
            map(_is_amount, [gpus, idle_seconds, *resources.values()])):
        raise FarmError(f"`gpus`, `resources` and `idle_seconds` of {where} are expected to be "
                        "numbers from 0 up.")
    return ServerSpec(name, "", tuple(command), str(item.get("folder", ".")), env, float(gpus),
                      {key: float(value) for key, value in resources.items()},
                      float(idle_seconds))


def _are_texts(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6
