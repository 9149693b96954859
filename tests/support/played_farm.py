"""A batch on a door of its own, whose servers compute nothing and end prompts as a test says."""

import asyncio
import json
from collections import Counter
from functools import partial
from pathlib import Path

from fake_comfy import FakeComfy
from farm import outputs
from farm.client import Batch
from farm.comfy import Comfy
from farm.prompts import asked_for
from farm.worker import Worker
from support.doors import OpenDoor


def asked(seed, mib=100, **inputs):
    inputs = {"mib": mib, "seed": seed, **inputs}
    return asked_for(f"p{seed}", {"1": {"class_type": "Fake", "inputs": inputs}})


class Played(Worker):
    """A worker of which `script(server, order or None)` may say the outcome, or raise an error."""

    def __init__(self, farm, spec, *rest):
        super().__init__(spec, *rest)
        self.farm, self.name = farm, spec.name

    async def start(self):
        self.farm.starts[self.name] += 1
        self.farm.script(self.name, None)
        return await super().start()

    async def run(self, order):
        self.farm.orders.append((self.name, order))
        found = self.farm.script(self.name, order)
        return found if found is not None else await super().run(order)


class SeenError:
    def __init__(self):
        self.lines = []

    def changes(self, counts, states):
        pass

    def says(self, text):
        self.lines.append(text)


class Farm:
    """Servers by their size in MiB; `run` opens a door on the folder, as often as it is called."""

    def __init__(self, folder, sizes, script=lambda server, order: None, **options):
        self.results, self.script, self.options = folder, script, options
        self.heard, self.orders, self.starts = SeenError(), [], Counter()
        self.comfies = {name: FakeComfy(mib) for name, mib in sizes.items()}

    def run(self, prompts):
        urls = {name: comfy.url for name, comfy in self.comfies.items()}
        door = OpenDoor(self.results, urls, work=partial(Played, self), **self.options)
        try:
            return asyncio.run(self._run(door.url, prompts))
        finally:
            door.close()

    async def _run(self, url, prompts):
        farm = Comfy(url, 60)
        try:
            batch = Batch(farm, self.results, self.heard, is_own=True)
            await batch.run(iter(prompts))
        finally:
            await farm.close()
        return batch.counts

    def stop(self):
        for comfy in self.comfies.values():
            comfy.silent.clear()
            comfy.stop()

    def server_of(self, one):
        return json.loads((self.results / one.key / outputs.RESULT).read_text())["server"]


def finished(results):
    return sorted(path.parent.name for path in Path(results).glob(f"*/{outputs.RESULT}"))
