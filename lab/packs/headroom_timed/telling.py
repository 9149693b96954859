"""Nodes that show what the server contains, and report events to the pack under test."""

import gc
import logging
import sys
import threading
import time

import comfy_execution.progress
from comfy_execution.graph import DynamicPrompt
from comfy_execution.progress import ProgressHandler, get_progress_state, reset_progress_state
from server import PromptServer

from .waiting import Timed

HELD = []


class TimedRegistry(Timed):
    """What ComfyUI's progress registry knows while the prompt runs."""

    def run(self, seconds, salt, value=None):
        registry = get_progress_state()
        names = {name: type(handler).__name__ for name, handler in registry.handlers.items()}
        return self.told(time.time(), value, handlers=names, prompt_id=registry.prompt_id)


class Holder(ProgressHandler):
    """Keeps the registry that it finds as the next prompt begins."""

    def reset(self):
        HELD.append(get_progress_state())


class Slow(ProgressHandler):
    """Takes its time when it hears of a node."""

    def start_handler(self, node_id, state, prompt_id):
        time.sleep(0.3)


class TimedSlowly(Timed):
    """The handlers of its prompt are told of each node one after another, slowly."""

    @classmethod
    def IS_CHANGED(cls, **_):  # asked before the first node starts
        get_progress_state().register_handler(Slow("slow"))

    def run(self, seconds, salt, value=None):
        return self.told(time.time(), value)


class TimedElsewhere(Timed):
    """Puts the registry of another prompt in place, as another executor in this process does."""

    def run(self, seconds, salt, value=None):
        reset_progress_state("elsewhere", DynamicPrompt({}))
        return self.told(time.time(), value)


class TimedForgotten(Timed):
    """Leaves no registry at all."""

    def run(self, seconds, salt, value=None):
        comfy_execution.progress.global_progress_registry = None
        return self.told(time.time(), value)


class TimedForgottenLater(Timed):
    """Leaves no registry as soon as no prompt runs."""

    def run(self, seconds, salt, value=None):
        threading.Thread(target=forget_when_idle, daemon=True).start()
        return self.told(time.time(), value)


def forget_when_idle():
    while PromptServer.instance.prompt_queue.get_tasks_remaining():
        time.sleep(0.01)
    comfy_execution.progress.global_progress_registry = None
    logging.info("an idle server has no registry any more")


class TimedThreads(Timed):
    """The threads of the server: their names, and their numbers in the system."""

    def run(self, seconds, salt, value=None):
        threads = {one.name: one.native_id for one in threading.enumerate()}
        return self.told(time.time(), value, threads=threads)


class TimedHold(Timed):
    """Keeps the registry that is there between this prompt's and the next one's."""

    def run(self, seconds, salt, value=None):
        get_progress_state().register_handler(Holder("holder"))
        return self.told(time.time(), value)


def journal_under_test():
    return next(
        module for name, module in list(sys.modules.items())
        if name.replace("\\", "/").endswith("headroom.headroom.measure.journal")
    )


class TimedWalked(Timed):
    """Whether a garbage collection would walk over a module of the pack under test."""

    def run(self, seconds, salt, value=None):
        module = journal_under_test()
        known = gc.get_referrers(module.note_action)
        walked = any(thing is vars(module) for thing in known)
        return self.told(time.time(), value, walked=walked)


class TimedNote(Timed):
    """Tells the pack under test about an action and a recovery, as its own nodes do."""

    def run(self, seconds, salt, value=None):
        began = time.time()
        journal = journal_under_test()
        journal.note_action("purge", 12.5, "12.5 MiB of VRAM freed")
        journal.note_oom(1, "unloaded every other model", 3.0, "Allocation failed", False)
        journal.note_oom(2, "gave the allocator's cache back", 4.0, "Allocation failed", True)
        return self.told(began, value)
