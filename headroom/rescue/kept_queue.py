"""Keep the queue when the server is killed: each prompt is in a file until it ends.

What an ended server left is offered to the user who opens the page, or queued again automatically.
The prompt that ran at the end comes last then, and automatically only once: it may be the reason.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from ..base.device import in_mib
from ..base.ram import ram_room_bytes
from ..base.said import Refused, said_json
from ..measure.snapshot import rss_bytes
from ..record.ticker import Ticker
from .left_queues import LeftQueue, left_queues
from .queue_file import HAS_SQLITE, DatabaseError, KeptPrompt, QueueFile, Sample, new_file
from .settings import Queue, own_part
from .words import nothing_left, sentence_about

log = logging.getLogger("headroom")

SAMPLE_SECONDS, LOOK_SECONDS = 1.0, 0.25  # between two samples of a node; after a change of node
NOTHING_LEFT: dict[str, Any] = {"text": None, "said": None, "prompts": [], "samples": []}
EVENT = "headroom.queue"  # what was left is not what it was
RAN_KEY = "ran_when_server_ended"  # in a prompt's extra_data.headroom


class KeptQueue:
    """Keeps this server's queue in a file of `folder`, and handles what ended servers left.

    `host`: headroom/host/queue.py; not used with "off". Called for prompts from any thread. While
    the disk refuses, which is logged once, the file stays ours: as soon as it can be made or
    written, it has the queue as it is then, and no prompt that has ended.
    """

    def __init__(self, host: Any, folder: Path, wish: Queue) -> None:
        self._host = host
        self._folder = folder
        self._wish = wish
        self._lock = threading.RLock()
        self._left: list[LeftQueue] = []
        self._gone: set[str] = set()  # of these, queued again but not yet in our own file
        self._file: QueueFile | None = None
        self._is_told = False
        self._last = Sample(0.0, None, 0, 0)
        self._ticker = Ticker(self.look, "headroom queue", LOOK_SECONDS)
        if wish != "off" and not HAS_SQLITE:
            self._wish = "off"
            self._fails(OSError("this Python was compiled without SQLite"))
        if self._wish == "off":
            return
        try:
            self._left = left_queues(folder)
            self._file = new_file(folder)
        except (OSError, DatabaseError) as error:
            self._fails(error)

    def start(self) -> None:
        """Log what was left, and begin to store memory figures while a prompt runs."""
        if self._wish == "off":
            return
        self._ticker.start()
        if not self._left:
            return
        log.warning("[Headroom] %s", self._sentence())
        if self._wish == "resume":
            # A thread of its own: ComfyUI validates prompts in the server's.
            threading.Thread(target=self._resume, name="headroom resume", daemon=True).start()

    # ---------------------------------------------------- events

    def changed(self) -> None:
        """Prompts may have come, begun or ended: write what is in the queue now."""
        with self._lock:
            if self._file is None and self._wish != "off":
                self._make_file()
            if self._file is None:
                return
            running, waiting = self._host.queue_items()
            if self._is_written(self._file.keep, running, waiting) and self._gone:
                self._take(self._gone)
            (self._ticker.wake if running else self._ticker.rest)()

    def _make_file(self) -> None:
        try:
            self._file = new_file(self._folder)
        except (OSError, DatabaseError) as error:
            self._fails(error)

    def look(self) -> None:
        """Store memory and the node that runs, each second and when the node changes."""
        nodes, now = self._host.running_nodes(), time.time()
        node_id = nodes[-1] if nodes else None
        if node_id == self._last.node_id and 0 <= now - self._last.at < SAMPLE_SECONDS:
            return
        self._last = Sample(now, node_id, rss_bytes(), ram_room_bytes())
        with self._lock:
            if self._file is not None:
                self._is_written(self._file.note, self._last)

    def _is_written(self, write: Callable[..., None], *data: Any) -> bool:
        try:
            write(*data)
        except DatabaseError as error:
            self._fails(error)
            return False
        return True

    def _fails(self, error: Exception) -> None:
        if not self._is_told:
            log.warning("[Headroom] the queue is not kept in a file in %s while this fails: %s",
                        self._folder, error)
        self._is_told = True

    # ---------------------------------------------------- requests

    def outputs_of(self, prompt_id: str) -> Path | None:
        """Return the folder for finished outputs of a prompt, deleted when it leaves the queue.

        None if the queue is not kept.
        """
        file = self._file
        return None if file is None else file.outputs_of(prompt_id)

    def left(self) -> dict[str, Any]:
        """Return what ended servers left, with their last minutes, as data."""
        with self._lock:
            if not self._prompts():
                return NOTHING_LEFT
            text, last = self._sentence(), self._left[-1]
            return {
                "text": text, "said": said_json(text),
                "prompts": [
                    {"prompt_id": one.prompt_id, "was_running": one.was_running}
                    for one in self._prompts()
                ],
                "samples": [
                    {"seconds_before_end": round(last.ended_at - one.at, 1),
                     "node_id": one.node_id, "rss_mib": in_mib(one.rss_bytes),
                     "free_mib": in_mib(one.room_bytes)} for one in last.samples
                ],
            }

    def queue_again(self) -> dict[str, Any]:
        """Queue what was left, before all others; what ComfyUI refuses stays in its file.

        Raises Refused if there is nothing. Do not call it in the server's own thread.
        """
        return self._queue(self._expect_left())

    def discard(self) -> dict[str, Any]:
        """Forget what was left. Raises Refused if there is nothing."""
        with self._lock:
            gone = {one.prompt_id for one in self._expect_left()}
            self._take(gone)
            return {"discarded": len(gone)}

    def _expect_left(self) -> list[KeptPrompt]:
        with self._lock:
            if prompts := self._prompts():
                return prompts
        raise Refused(nothing_left())

    def _resume(self) -> None:
        with self._lock:
            prompts = self._prompts()
        again = [one for one in prompts if not (one.was_running and _ran_before(one))]
        self._queue(again)
        if len(again) < len(prompts):
            log.warning(
                "[Headroom] the prompt that ran when the server ended had run so once before: it "
                "is not queued again by itself"
            )

    # ---------------------------------------------------- the work

    def _prompts(self) -> list[KeptPrompt]:
        """Return everything that is left, each prompt once, those that ran last."""
        found = {one.prompt_id: one for left in self._left for one in left.prompts
                 if one.prompt_id not in self._gone}
        return sorted(found.values(), key=lambda one: one.was_running)

    def _queue(self, prompts: Sequence[KeptPrompt]) -> dict[str, Any]:
        """Queue those that ComfyUI accepts, if they are still left and nobody has queued them.

        Not locked while ComfyUI validates, which takes long for many: a prompt that begins locks.
        """
        fit: list[tuple[KeptPrompt, list[str]]] = []
        refused: list[dict[str, str]] = []
        for one in prompts:
            try:
                fit.append((one, self._host.validated(one.prompt_id, one.prompt, one.outputs)))
            except Exception as error:  # of any pack: it must not cost the other prompts
                reason = str(error) or type(error).__name__
                refused.append({"prompt_id": one.prompt_id, "error": reason})
                log.warning("[Headroom] prompt %s is not queued again: %s", one.prompt_id, reason,
                            exc_info=not isinstance(error, ValueError))
        with self._lock:
            left = {one.prompt_id for one in self._prompts()}
            there = {str(item[1]) for part in self._host.queue_items() for item in part}
            items = [(one.prompt_id, one.prompt, _extra_data(one), outputs)
                     for one, outputs in fit if one.prompt_id in left - there]
            if self._file is not None:
                for prompt_id, *_ in items:
                    for one_left in self._left:
                        self._file.take_outputs(one_left.file, prompt_id)
            self._host.put_before_all(items)
            self._gone.update(one.prompt_id for one, _ in fit)
            self.changed()
        return {"queued": [item[0] for item in items], "refused": refused}

    def _take(self, gone: Collection[str]) -> None:
        """Remove prompts from what was left, and tell all pages; a file without any is deleted."""
        rest = []
        for left in self._left:
            prompts = [one for one in left.prompts if one.prompt_id not in gone]
            if prompts:
                self._is_written(left.file.drop, gone)
                rest.append(left._replace(prompts=prompts))
            else:
                left.file.remove()
        self._left, self._gone = rest, self._gone - set(gone)
        self._host.send_event(EVENT, {}, None)

    def _sentence(self) -> str:
        last = self._left[-1]
        prompts = self._prompts()
        ran = next((one for one in prompts if one.was_running and one in last.prompts), None)
        waiting = sum(one is not ran for one in prompts)
        return sentence_about(ran, last.samples, waiting)


def _ran_before(one: KeptPrompt) -> bool:
    return own_part(one.extra_data).get(RAN_KEY) is True


def _extra_data(one: KeptPrompt) -> dict[str, Any]:
    if not one.was_running:
        return one.extra_data
    return {**one.extra_data, "headroom": {**own_part(one.extra_data), RAN_KEY: True}}
