"""The sentences about the queue that a server left when it ended."""

from collections.abc import Sequence

from ..base.device import MIB
from ..base.prompt_node import title_given
from ..base.said import Said, joined, said
from .queue_file import KeptPrompt, Sample


def sentence_about(ran: KeptPrompt | None, samples: Sequence[Sample], waiting: int) -> str:
    """Return what ran when the server ended, with how much RAM, and how many had not run."""
    parts: list[str] = []
    if ran is not None:
        parts.append(_what_ran(ran, samples))
        if (growth := _growth(ran, samples)) is not None:
            parts.append(growth)
    if waiting == 1:
        parts.append(said("1 prompt had not run."))
    elif waiting or not parts:
        parts.append(said("{count} prompts had not run.", count=waiting))
    return joined(" ", parts)


def _what_ran(ran: KeptPrompt, samples: Sequence[Sample]) -> Said:
    if not samples:
        return said("The server ended while prompt {prompt_id} ran.", prompt_id=ran.prompt_id)
    last = samples[-1]
    memory = {"rss_mib": last.rss_bytes / MIB, "free_mib": last.room_bytes / MIB}
    if last.node_id is None:
        return said("The server ended while prompt {prompt_id} ran, with {rss_mib} of RAM in use "
                    "by it and {free_mib} left.", prompt_id=ran.prompt_id, **memory)
    return said("The server ended while {title} (node {node_id}) of prompt {prompt_id} ran, with "
                "{rss_mib} of RAM in use by it and {free_mib} left.",
                title=title_of(ran, last.node_id), node_id=last.node_id, prompt_id=ran.prompt_id,
                **memory)


def _growth(ran: KeptPrompt, samples: Sequence[Sample]) -> Said | None:
    """Return the node in which the server's RAM grew most in its last minutes; None if in none."""
    grown: dict[str, int] = {}
    for one, after in zip(samples, samples[1:], strict=False):
        if one.node_id is not None:
            grown[one.node_id] = grown.get(one.node_id, 0) + after.rss_bytes - one.rss_bytes
    node_id = max(grown, key=lambda one: grown[one], default=None)
    if node_id is None or grown[node_id] < MIB:
        return None
    return said("In its last minutes its RAM grew most in {title} (node {node_id}): {grew_mib}.",
                title=title_of(ran, node_id), node_id=node_id, grew_mib=grown[node_id] / MIB)


def title_of(ran: KeptPrompt, node_id: str) -> str:
    """Return the title of a node, or of the node that expanded to it; without a title its class."""
    node = ran.prompt.get(node_id) or ran.prompt.get(node_id.partition(".")[0]) or {}
    return title_given(node) or str(node.get("class_type", node_id))


def nothing_left() -> Said:
    """Return that there is nothing to queue again."""
    return said("There are no prompts of an earlier server, or somebody has decided about them "
                "already.")
