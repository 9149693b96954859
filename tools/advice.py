"""Advice of a server on a run: asked for, printed, and put into a prompt. Needs only Python."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import prompt_edit
from .client import Client
from .errors import DevError

Json = dict[str, Any]
# What the figure is of, where it is not the peak.
WORDS = {"oom_guard": "Needs {} less where memory runs short",
         "after": "Leaves {} less on the GPU after the run"}
NO_ROUTE = "install or update Headroom on it"


def of(client: Client, prompt_id: str, into_gib: float | None = None) -> list[Json]:
    """The server's advice on a run; DevError where it gives none."""
    asked = "" if into_gib is None else f"?into_gib={into_gib:g}"
    status, answer = client.get(f"/headroom/runs/{prompt_id}/advice{asked}")
    if status != 200:
        reason = answer.get("error") if isinstance(answer, dict) else None
        raise DevError(f"The server gives no advice: {reason or NO_ROUTE}")
    return list(answer)


def text(found: Sequence[Mapping[str, Any]]) -> str:
    """Advice as a numbered list."""
    lines = [f"{number}. {one['text']}" + ("" if not one["saves_mib"][1] else f"\n   {saving(one)}")
             for number, one in enumerate(found, 1)]
    return "\n".join(["What to change:", *lines]) if lines else "There is nothing to advise."


def saving(one: Mapping[str, Any]) -> str:
    """What it saves, what that costs, and what it has saved where it was followed."""
    words = [WORDS.get(_what(one), "Saves {}").format(span(one["saves_mib"]))]
    words.append("can change the picture" if one["changes_picture"] else "the picture stays")
    if one.get("measured_mib"):
        words.append(f"it has saved {one['measured_mib']['mib']:,.0f} MiB")
    if one["edit"] is None:
        words.append("not in the workflow: a setting")
    return "; ".join(words) + "."


def _what(one: Mapping[str, Any]) -> str:
    return "after" if (one.get("values") or {}).get("after") else str(one.get("kind"))


def span(mib: Sequence[float]) -> str:
    """A range of MiB."""
    low, high = round(mib[0]), round(mib[1])
    if low == high:
        return f"{high:,} MiB"
    return f"{low:,} to {high:,} MiB" if low else f"up to {high:,} MiB"


def applied(prompt: Json, found: Sequence[Mapping[str, Any]]) -> Json:
    """The API prompt with every edit in it, in their order."""
    for one in found:
        if one["edit"] is not None:
            prompt = apply_edit(prompt, one["edit"])
    return prompt


def apply_edit(prompt: Json, edit: Mapping[str, Any]) -> Json:
    """The prompt with one edit, DevError where it does not fit."""
    try:
        return prompt_edit.apply_edit(prompt, edit)
    except ValueError as error:
        raise DevError(str(error)) from error
