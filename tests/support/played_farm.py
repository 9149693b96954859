"""A batch on a door of its own, whose servers compute nothing and end prompts as a test says."""

import json
from collections import Counter
from pathlib import Path

from farm import outputs
from farm.client import Batch
from farm.errors import known_errors
from farm.prompts import asked_for
from farm.threads import Threads
from support.doors import PATIENCE, OpenDoor
from support.fake_comfy import FakeComfy


def asked(seed, mib=100, **inputs):
    inputs = {"mib": mib, "seed": seed, **inputs}
    return asked_for(f"p{seed}", {"1": {"class_type": "Fake", "inputs": inputs}})


class Played(Threads):
    """Calls of which `script(server, order or None)` may say the outcome, or raise an error."""

    def __init__(self, farm, specs):
        super().__init__(specs, PATIENCE, known_errors(), farm.results)
        self.farm = farm

    async def start(self, server):
        self.farm.starts[server] += 1
        self.farm.script(server, None)
        return await super().start(server)

    async def run(self, server, order):
        self.farm.orders.append((server, order))
        found = self.farm.script(server, order)
        return found if found is not None else await super().run(server, order)


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
        door = OpenDoor(self.results, urls, calls=lambda specs: Played(self, specs), **self.options)
        try:
            batch = Batch(door.url, "", self.results, 5.0, self.heard, is_own=True)
            batch.run(iter(prompts))
        finally:
            door.close()
        return batch.counts

    def stop(self):
        for comfy in self.comfies.values():
            comfy.silent.clear()
            comfy.stop()

    def server_of(self, one):
        return json.loads((self.results / one.key / outputs.RESULT).read_text())["server"]


def finished(results):
    return sorted(path.parent.name for path in Path(results).glob(f"*/{outputs.RESULT}"))
