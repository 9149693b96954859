"""What HTTP requests may ask for; checked before anything is done."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from ..actions.offload import Scope, Target
from ..actions.purge import Unload
from ..base.ceiling import EXPECTED
from ..base.said import said

QUEUE_ACTIONS = ("queue again", "discard")
MAX_RUNS_ASKED = 50
MAX_BODY_BYTES = 64 * 1024
MAX_PROMPT_BYTES = 8 * 1024 * 1024
_GIB = re.compile(r"[0-9]{1,4}(\.[0-9]+)?")
MAX_DIGITS = 12  # of a number of MiB
WHOLE_MIB = "a whole number of MiB, 0 or more"


class BadRequest(ValueError):
    """The request cannot be understood; the message is one sentence for the sender."""


def purge_request(body: bytes) -> dict[str, Any]:
    """Read the body of POST /headroom/purge as arguments of `purge`; an empty one: the defaults."""
    fields = _fields(body, "unload", "keep", "only_below_free_mib", "free_ram", "reset_node_cache",
                     "free_mib")
    found = {
        "unload": _choice(fields, "unload", get_args(Unload)),
        "keep": _field(fields, "keep", _are_words, "a list of model ids", []),
        "only_below_free_mib": _count(fields, "only_below_free_mib"),
        "free_ram": _flag(fields, "free_ram"),
        "reset_node_cache": _flag(fields, "reset_node_cache"),
        "free_mib": _count(fields, "free_mib") if "free_mib" in fields else None,
    }
    if (found["unload"] == "all but keep") != bool(found["keep"]):
        raise BadRequest(
            "Expected the ids of models in `keep` together with `unload` = 'all but keep', "
            "but got only one of the two."
        )
    return found


def offload_request(body: bytes) -> dict[str, Any]:
    """Read the body of POST /headroom/offload as arguments of `offload`; `value`: an id."""
    fields = _fields(body, "model", "scope", "to")
    model = _field(fields, "model", lambda value: isinstance(value, str),
                   "the id of a loaded model as GET /headroom/memory lists them")
    return {"value": model, "scope": _choice(fields, "scope", get_args(Scope)),
            "to": _choice(fields, "to", get_args(Target))}


def rescue_request(body: bytes) -> str:
    """Read the body of POST /headroom/rescue: the id of a prompt."""
    return str(_field(
        _fields(body, "prompt_id"), "prompt_id", lambda value: isinstance(value, str) and value,
        "the id of a prompt that ran out of memory"))


def estimate_request(body: bytes) -> dict[str, Any]:
    """Read the body of POST /headroom/estimate: a prompt in API format."""
    prompt = _fields(body, "prompt").get("prompt")
    if not isinstance(prompt, dict) or not prompt or not all(
            isinstance(node, dict) and "class_type" in node for node in prompt.values()):
        raise BadRequest(said(
            "Expected a workflow in API format with nodes in it as `prompt`, but got {given}.",
            given=_shown(prompt)))
    return prompt


def queue_request(body: bytes) -> str:
    """Read the body of POST /headroom/queue: what to do with the prompts that were left."""
    return _choice({"action": None, **_fields(body, "action")}, "action", QUEUE_ACTIONS)


def reserve_request(body: bytes) -> int:
    """Read the body of POST /headroom/reserve: MiB to leave to others."""
    return _count({"mib": None, **_fields(body, "mib")}, "mib")


def limit_request(body: bytes) -> str:
    """Read the body of POST /headroom/limit: a size, in GiB without a unit, or "off"."""
    return str(_field(
        _fields(body, "limit"), "limit", lambda value: not isinstance(value, bool) and isinstance(
            value, (str, int, float)), EXPECTED))


def expect_empty(body: bytes) -> None:
    """Read the body of POST /headroom/peaks, which resets the peaks: BadRequest unless empty."""
    _fields(body)


def runs_asked(query: Mapping[str, str]) -> tuple[int, bool]:
    """Read `limit` and `nodes` of GET /headroom/runs: how many records, and whether with nodes."""
    numbers = {str(number) for number in range(1, MAX_RUNS_ASKED + 1)}
    limit = _field(query, "limit", numbers.__contains__,
                   f"a number from 1 to {MAX_RUNS_ASKED}", str(MAX_RUNS_ASKED))
    return int(limit), _field(query, "nodes", ("0", "1").__contains__, "0 or 1", "1") == "1"


def free_mib_asked(query: Mapping[str, str]) -> int:
    """Read `free_mib` of GET /headroom/ready; 0 if it is left out."""
    return int(_field(query, "free_mib", lambda given: given.isascii() and given.isdecimal()
                      and len(given) <= MAX_DIGITS, WHOLE_MIB, "0"))


def into_gib_asked(query: Mapping[str, str]) -> float | None:
    """Read `into_gib` of GET /headroom/runs/{prompt_id}/advice; None if it is left out."""
    given = query.get("into_gib")
    if given is None:
        return None
    if not _GIB.fullmatch(given) or not 0 < float(given):
        raise BadRequest(said(
            "Expected `into_gib` to be a size in GiB such as 8 or 7.5, more than 0 and less than "
            "10000, but got {given}.", given=_shown(given)))
    return float(given)


def _fields(body: bytes, *known: str) -> dict[str, Any]:
    try:
        fields = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadRequest("Expected a JSON object as the body, but it is not JSON.") from error
    if not isinstance(fields, dict):
        raise BadRequest(f"Expected a JSON object as the body, but got {_shown(fields)}.")
    unknown = next((name for name in fields if name not in known), None)
    if unknown is not None:
        expected = f"only the keys {', '.join(known)}" if known else "no keys"
        raise BadRequest(f"Expected {expected}, but got {_shown(unknown)}.")
    return fields


def _field(
    fields: Mapping[str, Any], name: str, is_right: Callable[[Any], object], expected: str,
    otherwise: Any = None,
) -> Any:
    """Return a value of a request, or `otherwise` if it is left out."""
    value = fields.get(name, otherwise)
    if not is_right(value):
        raise BadRequest(f"Expected `{name}` to be {expected}, but got {_shown(value)}.")
    return value


def _choice(fields: dict[str, Any], name: str, options: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{option}'" for option in options)
    return str(_field(fields, name, options.__contains__, f"one of {listed}", options[0]))


def _flag(fields: dict[str, Any], name: str) -> bool:
    return bool(_field(fields, name, lambda value: isinstance(value, bool), "true or false", False))


def _count(fields: dict[str, Any], name: str) -> int:
    return int(_field(fields, name, lambda value: isinstance(value, int) and not isinstance(
        value, bool) and 0 <= value < 10**MAX_DIGITS, WHOLE_MIB, 0))


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _shown(value: Any) -> str:
    """Return a sender's value as a short text."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
