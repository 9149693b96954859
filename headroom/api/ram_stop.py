"""A clean stop: the running prompt is interrupted before the system would end the server."""

import logging
import math
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from ..base.device import MIB, is_in_ram
from ..base.graph import Graph, Prompt
from ..base.prompt_node import is_node, names_a_model, title_of
from ..base.ram import ram_room_bytes, swap_room_bytes
from ..base.said import Said, joined, said, said_json
from ..host.adapter import current_host, has_flag, host_registry
from ..host.types import Held
from ..measure.journal import Action, note
from ..measure.snapshot import rss_bytes
from ..models.loaded import loaded_models
from ..record.ticker import Steady

log = logging.getLogger("headroom")

EVENT = "headroom.ram"
HELPFUL = ("--disable-pinned-memory", "--cache-none", "--fast-disk")
RATE_SECONDS = 1.0  # the fall is measured over this time
END_SECONDS = 1.0  # RAM runs out if the fall continues for this time
STEP_SECONDS = 0.2  # a fall may stand still for so long and go on
LAST_SECONDS = 0.3  # then the stop does not wait: a step of a model often takes as long
BESIDE = 0.05  # of a file: so much more RAM is needed to load it
# Times its file: what a model can need if its weights become wider (measured: 1.24 on the CPU).
TAKES = 1.3
MODELS_NAMED = 3
# An error in these look-ups must not end a prompt, and must not prevent that one is stopped.
_steady = Steady("what a node loads, or what is loaded, cannot be looked up")


class RamFall:
    """Predicts from readings of the free RAM and swap whether they are about to run out."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()
        self.seconds_left = math.inf  # at the rate of the last second
        self.may_end = False  # by the last reading: the next one must come soon
        self._foreseen = 0  # what was free at the first reading that predicted it

    def is_ending(self, at: float, room_bytes: int) -> bool:
        """Return whether this reading and the last one both predict that RAM runs out.

        `at` in seconds. A fall that has stopped by the next reading was one allocation.
        """
        self._looks.append((at, room_bytes))
        while at - self._looks[0][0] > RATE_SECONDS:
            self._looks.popleft()
        first_at, first_bytes = self._looks[0]
        lost, seconds = first_bytes - room_bytes, at - first_at
        # Frames come in steps: between two quick readings nothing may happen.
        ago = [room for then, room in self._looks if at - then >= STEP_SECONDS]
        falls = room_bytes < (ago[-1] if ago else first_bytes)
        self.seconds_left = room_bytes * seconds / lost if falls and lost > 0 else math.inf
        did_end, self.may_end = self.may_end, self.seconds_left < END_SECONDS
        if not did_end:
            self._foreseen = room_bytes
        return self.may_end and did_end and room_bytes < self._foreseen


def is_load(files_bytes: int, taken_bytes: int, room_bytes: int) -> bool:
    """Return whether a node may just be loading its files into RAM, and the rest of them fits.

    A load needs the size of its files once or twice: as read, and as the model made from them. Some
    weights of the model may be wider than in the file.
    """
    ends = files_bytes, TAKES * files_bytes, 2 * files_bytes
    return any(taken_bytes < end * (1 + BESIDE) and end <= taken_bytes + room_bytes for end in ends)


def loading_nodes(prompt: Prompt) -> frozenset[str]:
    """Return the nodes that name a file of weights; none if ComfyUI maps it (dynamic VRAM)."""
    if (host := current_host()) is not None and host.has_dynamic_vram():
        return frozenset()
    return frozenset(node_id for node_id, node in prompt.items()
                     if is_node(node) and names_a_model(node))


def load_bytes(prompt: Prompt, node_id: str) -> int:
    """Return how much RAM the weights that a node names are expected to take; 0: not known."""
    return int(TAKES * _file_bytes(prompt, node_id))


class Node(NamedTuple):
    """The node that runs, its prompt, and by how much free RAM has shrunk since it began."""

    prompt_id: str
    node_id: str
    taken_bytes: int = 0


@dataclass(frozen=True)
class RamStop:
    """Interrupts a prompt as ComfyUI itself does, and says once who held the RAM and what may help.

    `queue`: headroom/host/queue.py. `announce` informs browsers, and `stops(prompt, node, text)`
    the code that may run the prompt again.
    """

    queue: Any
    announce: Callable[[str, dict[str, Any]], None]
    stops: Callable[[str, str, str], None] = lambda *_: None

    def stop(self, node: Node) -> bool:
        """Interrupt the prompt; False if it has ended already, or if a load will just fit."""
        prompt: Prompt = self.queue.prompt_of(node.prompt_id) or {}
        room, files_bytes = ram_room_bytes(), _file_bytes(prompt, node.node_id)
        if is_load(files_bytes, node.taken_bytes, room + swap_room_bytes()):
            return False
        text = self._told(node, prompt, room)
        tell = partial(self.stops, node.prompt_id, node.node_id, text)
        if not self.queue.interrupt(node.prompt_id, tell):
            return False
        log.error("[Headroom] prompt %s: %s", node.prompt_id, text)
        note(Action(node.prompt_id, node.node_id, "ram stop", None, text))
        self.announce(EVENT, {"prompt_id": node.prompt_id, "text": text, "said": said_json(text)})
        return True

    def _told(self, node: Node, prompt: Prompt, room_bytes: int) -> Said:
        return said(
            "RAM was about to run out in {title} (node {node_id}): the prompt was interrupted with "
            "{free_mib} left, before the system would have ended the server. {taken_mib} were "
            "taken since this node began. This server held {rss_mib}{models}. What may help: "
            "{helps}.",
            title=title_of(prompt, node.node_id), node_id=node.node_id,
            free_mib=room_bytes / MIB, taken_mib=max(0, node.taken_bytes) / MIB,
            rss_mib=rss_bytes() / MIB,
            models=_steady.call(lambda: _models(loaded_models())) or "", helps=_helps(),
        )


def _helps() -> str:
    swap = said("a larger page file") if sys.platform == "win32" else said("more swap space")
    return joined(", or ", [*filter(has_flag, HELPFUL), swap])


def _file_bytes(prompt: Prompt, node_id: str) -> int:
    """Return the size of the files that a node names; 0: not known."""

    def size() -> int:
        graph = Graph(prompt, host_registry())
        files = graph.files([node_id]) if node_id in graph.nodes else []
        return sum(file.stat().st_size for file in files)

    return _steady.call(size) or 0


def _models(models: list[Held]) -> str:
    held = [(ram, one.model) for one in models if (ram := _ram_bytes(one)) >= MIB]
    held.sort(key=lambda one: -one[0])
    if not held:
        return ""
    named = [said("{name} {ram_mib}", name=model.file or model.class_name, ram_mib=ram / MIB)
             for ram, model in held[:MODELS_NAMED]]
    return said(", with these models in RAM: {models}", models=joined(", ", named))


def _ram_bytes(held: Held) -> int:
    """Return the bytes of weights in RAM; dynamic VRAM maps them from files."""
    if held.model.is_dynamic:
        return 0
    elsewhere = 0 if is_in_ram(torch.device(held.device)) else held.bytes
    return held.model.total_bytes - elsewhere
