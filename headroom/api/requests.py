"""What HTTP requests may ask for; checked before anything is done."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.ceiling import EXPECTED
from ..base.said import said

UNLOADS = ("all models", "all but keep", "no models")
SCOPES = ("this model", "every other model")
TARGETS = ("CPU", "disk")
QUEUE_ACTIONS = ("queue again", "discard")
MAX_RUNS_ASKED = 50
MAX_BODY_BYTES = 64 * 1024
MAX_PROMPT_BYTES = 8 * 1024 * 1024
_GIB = re.compile(r"[0-9]{1,4}(\.[0-9]+)?")
MAX_DIGITS = 12  # of a number of MiB


class BadRequest(ValueError):
    """The request cannot be understood; the message is one sentence for the sender."""


@dataclass(frozen=True)
class PurgeRequest:
    unload: Any = "all models"
    keep: tuple[str, ...] = ()
    only_below_free_mib: int = 0
    free_ram: bool = False
    reset_node_cache: bool = False
    free_mib: int | None = None


@dataclass(frozen=True)
class OffloadRequest:
    model: str
    scope: Any = "this model"
    to: Any = "CPU"


def purge_request(body: bytes) -> PurgeRequest:
    """Read the body of POST /headroom/purge; an empty one means the defaults."""
    known = (
        "unload", "keep", "only_below_free_mib", "free_ram", "reset_node_cache", "free_mib",
    )
    fields = _fields(body, known)
    found = PurgeRequest(
        unload=_choice(fields, "unload", UNLOADS),
        keep=_ids(fields, "keep"),
        only_below_free_mib=_count(fields, "only_below_free_mib"),
        free_ram=_flag(fields, "free_ram"),
        reset_node_cache=_flag(fields, "reset_node_cache"),
        free_mib=_count(fields, "free_mib") if "free_mib" in fields else None,
    )
    if (found.unload == "all but keep") != bool(found.keep):
        raise BadRequest(
            "Expected the ids of models in `keep` together with `unload` = 'all but keep', "
            "but got only one of the two."
        )
    return found


def offload_request(body: bytes) -> OffloadRequest:
    """Read the body of POST /headroom/offload."""
    fields = _fields(body, ("model", "scope", "to"))
    model = fields.get("model")
    if not isinstance(model, str):
        raise BadRequest(
            "Expected `model` to be the id of a loaded model as GET /headroom/memory lists them, "
            f"but got {_shown(model)}."
        )
    return OffloadRequest(
        model, _choice(fields, "scope", SCOPES), _choice(fields, "to", TARGETS)
    )


def rescue_request(body: bytes) -> str:
    """Read the body of POST /headroom/rescue: the id of a prompt."""
    prompt_id = _fields(body, ("prompt_id",)).get("prompt_id")
    if not isinstance(prompt_id, str) or not prompt_id:
        raise BadRequest(
            "Expected `prompt_id` to be the id of a prompt that ran out of memory, "
            f"but got {_shown(prompt_id)}."
        )
    return prompt_id


def estimate_request(body: bytes) -> dict[str, Any]:
    """Read the body of POST /headroom/estimate: a prompt in API format."""
    prompt = _fields(body, ("prompt",)).get("prompt")
    if not isinstance(prompt, dict) or not prompt:
        raise BadRequest(said(
            "Expected a workflow in API format with nodes in it as `prompt`, but got {given}.",
            given=_shown(prompt)))
    return prompt


def queue_request(body: bytes) -> str:
    """Read the body of POST /headroom/queue: what to do with the prompts that were left."""
    fields = _fields(body, ("action",))
    if "action" not in fields:
        raise BadRequest(f"Expected `action` to be one of {QUEUE_ACTIONS}, but got nothing.")
    return _choice(fields, "action", QUEUE_ACTIONS)


def reserve_request(body: bytes) -> int:
    """Read the body of POST /headroom/reserve: MiB to leave to others."""
    fields = _fields(body, ("mib",))
    if "mib" not in fields:
        raise BadRequest("Expected `mib`, the MiB of VRAM to leave to others, but got nothing.")
    return _count(fields, "mib")


def limit_request(body: bytes) -> str:
    """Read the body of POST /headroom/limit: a size, in GiB without a unit, or "off"."""
    given = _fields(body, ("limit",)).get("limit")
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise BadRequest(f"Expected `limit` to be {EXPECTED}, but got {_shown(given)}.")
    return str(given)


def runs_asked(query: Mapping[str, str]) -> int:
    """Read `limit` of GET /headroom/runs."""
    given = query.get("limit", str(MAX_RUNS_ASKED))
    if given not in {str(number) for number in range(1, MAX_RUNS_ASKED + 1)}:
        raise BadRequest(
            f"Expected `limit` to be a number from 1 to {MAX_RUNS_ASKED}, but got {_shown(given)}."
        )
    return int(given)


def free_mib_asked(query: Mapping[str, str]) -> int:
    """Read `free_mib` of GET /headroom/ready; 0 if it is left out."""
    given = query.get("free_mib", "0")
    if not (given.isascii() and given.isdecimal() and len(given) <= MAX_DIGITS):
        raise BadRequest(
            "Expected `free_mib` to be a whole number of MiB, 0 or more, but got "
            f"{_shown(given)}."
        )
    return int(given)


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


def expect_empty(body: bytes) -> None:
    """Read the body of POST /headroom/peaks, which resets the peaks: BadRequest unless empty."""
    _fields(body, ())


def _fields(body: bytes, known: tuple[str, ...]) -> dict[str, Any]:
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


def _choice(fields: dict[str, Any], name: str, options: tuple[str, ...]) -> str:
    value = fields.get(name, options[0])
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(f"'{option}'" for option in options)
        raise BadRequest(f"Expected `{name}` to be one of {listed}, but got {_shown(value)}.")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"Expected `{name}` to be true or false, but got {_shown(value)}.")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**MAX_DIGITS:
        raise BadRequest(
            f"Expected `{name}` to be a whole number of MiB, 0 or more, but got {_shown(value)}."
        )
    return value


def _ids(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRequest(f"Expected `{name}` to be a list of model ids, but got {_shown(value)}.")
    return tuple(value)


def _shown(value: Any) -> str:
    """Return a sender's value as a short text."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
