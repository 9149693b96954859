"""What a farm asks one of its servers, for the server that computes nothing."""

import asyncio
import threading

from farm.keys import prompt_id_of
from farm.prompts import asked_for
from farm.words import Order
from farm.worker import Patience, Worker
from tools.waiting import wait_until

PATIENT = Patience(start=60, silent=20, prompt=120)
SILENT = Patience(start=60, silent=2, prompt=120)  # where a server is to fall silent


def asked(extra=None, kind="Fake", **inputs):
    prompt = {"1": {"class_type": kind, "inputs": inputs}}
    return asked_for("p", {"prompt": prompt, "extra_data": extra or {}})


def order(one, attempt=0, **options):
    return Order(one, prompt_id_of(one.key, "a", attempt), **options)


def once(condition, act):
    """Act as soon as it is so, beside the test."""
    threading.Thread(target=lambda: (wait_until(condition), act()), daemon=True).start()


class Waited:
    """A worker whose calls are waited for, in an event loop of its own."""

    def __init__(self, *about):
        self.worker, self._loop = Worker(*about), asyncio.new_event_loop()

    def start(self):
        return self._loop.run_until_complete(self.worker.start())

    def run(self, one):
        return self._loop.run_until_complete(self.worker.run(one))

    def close(self):
        self._loop.run_until_complete(self.worker.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
