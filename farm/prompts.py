"""Prompts from files, folders, standard input and Python generators."""

import json
import runpy
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .keys import key_of, kind_of, models_of
from .words import Asked, FarmError

STDIN = "-"
GENERATOR = "prompts"
HOW = "save it in ComfyUI with Export (API)"


def read_all(sources: Iterable[str]) -> Iterator[Asked]:
    """Yield every prompt of every source, one after another; FarmError for the first bad one.

    A source is a JSON file (one prompt, or a list), a JSON-lines file, a folder of these, a
    Python file whose function `prompts` yields prompts, or `-`: JSON lines on standard input.
    """
    for source in sources:
        for name, data in _read(source):
            yield asked_for(name, data)


def count(sources: Iterable[str]) -> int | None:
    """Read everything once, so that a bad prompt is known before the first runs; None: unknown.

    Generators and standard input can be read once only.
    """
    sources = list(sources)
    read_twice = [one for one in sources if one != STDIN and not one.endswith(".py")]
    found = len({asked.key for asked in read_all(read_twice)})
    return found if len(read_twice) == len(sources) else None


def asked_for(name: str, data: Any) -> Asked:
    """Return a prompt in API format, or a body of POST /prompt, with its key and its kind.

    A copy: a generator may change what it yielded and yield it again.
    """
    data = _copied(name, data)
    body = data if _is_body(data) else {"prompt": data}
    prompt, extra = body["prompt"], body.get("extra_data") or {}
    if not isinstance(prompt, dict) or not prompt or not all(map(_is_node, prompt.values())):
        is_canvas = isinstance(data, dict) and isinstance(data.get("nodes"), list)
        came = "a workflow of the canvas" if is_canvas else "none"
        raise FarmError(f"{name} is expected to be a prompt in API format, but is {came}; {HOW}.")
    if not isinstance(extra, dict) or not isinstance(extra.get("headroom", {}), dict):
        raise FarmError(f"{name} has an `extra_data` that is no JSON object; leave it out.")
    return Asked(key_of(prompt, extra), name, prompt, extra, kind_of(prompt), models_of(prompt))


def _copied(name: str, data: Any) -> Any:
    try:
        return json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise FarmError(f"{name} is not JSON: {error}; {HOW}.") from error


def _is_body(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("prompt"), dict) and not _is_node(
        data["prompt"]
    )


def _is_node(node: Any) -> bool:
    return (
        isinstance(node, dict) and isinstance(node.get("class_type"), str)
        and isinstance(node.get("inputs"), dict)
    )


# ---------------------------------------------------- sources


def _read(source: str) -> Iterator[tuple[str, Any]]:
    path = Path(source)
    if source == STDIN:
        yield from _lines("standard input", sys.stdin)
    elif path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in (".json", ".jsonl"))
        if not files:
            raise FarmError(f"{path} has no .json or .jsonl file; name a folder with prompts.")
        for one in files:
            yield from _file(one)
    else:
        yield from (_generated if path.suffix == ".py" else _file)(path)


def _file(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        if path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as lines:
                yield from _lines(str(path), lines)
            return
        data = _parsed(str(path), path.read_bytes())
    except OSError as error:
        raise FarmError(f"{path} cannot be read: {error.strerror}.") from error
    if isinstance(data, list):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(data))
    else:
        yield str(path), data


def _lines(name: str, lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{name}:{number}", _parsed(f"{name}:{number}", line)
    except UnicodeDecodeError as error:
        raise FarmError(f"{name} is not UTF-8 text: {error.reason}.") from error


def _parsed(name: str, text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FarmError(f"{name} is not JSON: {error}; {HOW}.") from error


def _generated(path: Path) -> Iterator[tuple[str, Any]]:
    if not path.is_file():
        raise FarmError(f"{path} cannot be read: there is no such file.")
    try:
        yield from ((f"{path}#{number}", item) for number, item in enumerate(_made(path)))
    except FarmError:
        raise
    except Exception as error:  # of the user's own code, whatever it is
        said = f"{type(error).__name__}: {error}".split("\n")[0]
        raise FarmError(f"{path}, line {_line_of(error, path)}: {said}; mend it there.") from error


def _made(path: Path) -> Iterable[Any]:
    made = runpy.run_path(str(path), run_name="farm_prompts").get(GENERATOR)
    found = made() if callable(made) else None
    if not isinstance(found, Iterable):
        raise FarmError(f"{path} is expected to have a function `{GENERATOR}` that yields prompts, "
                        "but none came; yield them there.")
    return found


def _line_of(error: Exception, path: Path) -> int | None:
    """Return the last line of the file that an error came through."""
    if isinstance(error, SyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return lines[-1] if lines else None
