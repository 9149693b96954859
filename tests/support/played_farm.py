"""A farm whose servers a test plays, without Ray and without HTTP."""

import json
from collections import Counter
from pathlib import Path

from farm import outputs
from farm.driver import Driver
from farm.ledger import Ledger
from farm.prompts import asked_for
from farm.words import Facts, Outcome


def asked(seed, mib=100, **inputs):
    inputs = {"mib": mib, "seed": seed, **inputs}
    return asked_for(f"p{seed}", {"1": {"class_type": "Fake", "inputs": inputs}})


class Played:
    """Servers by their size in MiB; the call that began first ends first."""

    def __init__(self, results, sizes, script=None, rescues=False):
        self.results, self.sizes, self.script, self.rescues = results, sizes, script, rescues
        self.calls, self.orders, self.starts = [], [], Counter()

    def start(self, server):
        self.starts[server] += 1
        self.calls.append((server, None))

    def run(self, server, order):
        self.orders.append((server, order))
        self.calls.append((server, order))

    def wait(self, seconds):
        if not self.calls:
            return []
        server, order = self.calls.pop(0)
        return [(server, self.end(server, order))]

    def end(self, server, order):
        scripted = self.script(server, order) if self.script is not None else None
        if scripted is not None:
            return scripted
        size = self.sizes[server]
        facts = Facts(size, size, True)
        if order is None:
            return facts
        mib = order.asked.prompt["1"]["inputs"]["mib"]
        if mib > size:
            can = (order.rescue or order.guard) and self.rescues and mib <= 2 * size
            if not can:
                return Outcome("out of memory", "", facts)
        folder = self.results / outputs.PARTIAL / order.prompt_id
        outputs.bring(self, {"outputs": {}}, folder, {"server": server})
        return Outcome("done", "", facts, min(mib, size), mib > size, 1.0, str(folder))

    def download(self, query):
        return []


class Heard:
    def __init__(self):
        self.lines = []

    def changes(self, farm):
        pass

    def says(self, text):
        self.lines.append(text)


class Farm:
    def __init__(self, tmp_path, sizes, script=None, rescues=False, **options):
        self.results, self.heard, self.now = tmp_path, Heard(), 0.0
        self.played = Played(tmp_path, sizes, script, rescues)
        self.options = options

    def clock(self):
        self.now += 1.0
        return self.now

    def run(self, prompts):
        with Ledger(self.results) as ledger:
            self.driver = Driver(self.played, ledger, self.results, list(self.played.sizes),
                                 self.heard, adopted=list(self.played.sizes), clock=self.clock,
                                 **self.options)
            self.driver.run(iter(prompts))
        return self.driver.counts

    def server_of(self, one):
        return json.loads((self.results / one.key / outputs.RESULT).read_text())["server"]


def finished(results):
    names = [path.name for path in Path(results).iterdir()]
    return sorted(name for name in names if not name.startswith((".", "ledger")))
