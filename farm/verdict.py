"""What follows an attempt: the prompt is finished, tried again somewhere, or given up."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from .needs import Needs
from .placement import Server, Waiting
from .words import Outcome


@dataclass(frozen=True)
class Limits:
    """How often a prompt is tried again: after errors of its own, and after a server was lost."""

    errors: int = 1
    lost: int = 3


def verdict(
    waiting: Waiting, server: Server, outcome: Outcome, servers: Collection[Server],
    needs: Needs, limits: Limits,
) -> Waiting | str:
    """Return the prompt as it waits again, or why it does not; nothing where it is finished.

    `servers` are all that may come back, `needs` know this outcome.
    """
    ending, said = outcome.ending, f"{outcome.ending} on {server.name}: {outcome.text}"
    past = waiting.past
    again = replace(waiting, resumes_on=None)
    if ending == "done":
        return ""
    if ending == "no room":
        return replace(again, turned_away=waiting.turned_away + 1)
    if ending == "interrupted":
        return said
    if ending == "lost":
        past = replace(past, lost=past.lost + 1)
        again = replace(again, past=past)
        return again if past.lost <= limits.lost else f"lost {past.lost} times; last {said}"
    not_on = sorted({*past.not_on, server.name})
    again = replace(again, past=replace(past, not_on=not_on))
    elsewhere = [one for one in servers if one.name not in not_on]
    if ending == "out of memory":
        short_mib = max(needs.of(waiting.asked.kind).short_mib, server.size_mib)
        return again if any(one.facts.total_mib is None or one.size_mib > short_mib
                            for one in elsewhere) else said
    if ending == "refused":
        return again if elsewhere else said
    if not elsewhere:  # where there is one server, it is the one that tries again
        not_on.remove(server.name)
    past = replace(past, not_on=not_on, errors=past.errors + 1)
    return replace(again, past=past) if past.errors <= limits.errors else said
