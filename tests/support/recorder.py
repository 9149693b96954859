"""The recorder with a fake executor and memory that rises: what its tests share."""

import itertools
import time

from headroom.host.types import NodeLabel
from headroom.record.memory import Reading, Use

MIB = 1024 * 1024


class Graph:
    """The nodes of a prompt; ids with a dot were made by the node before the dot."""

    described = 0  # how many nodes of all graphs have been entered into records

    def __init__(self, *node_ids):
        self.node_ids = set(node_ids)

    def __call__(self, node_id):
        Graph.described += 1
        top = node_id.split(".")[0]
        parent = top if "." in node_id else None
        kind = f"Kind{node_id}" if node_id in self.node_ids else ""
        return NodeLabel(node_id, kind, f"Title {node_id}", top, parent)


class Probe:
    """Memory that rises by a MiB with every reading."""

    def __init__(self):
        self.count = itertools.count(1)
        self.readings = 0

    def begin_run(self):
        return ("cuda:0",)

    def measured(self):
        self.readings += 1
        used = next(self.count) * MIB
        return Reading(time.perf_counter(), 7 * MIB, (Use(used, used, used, 8192 * MIB),))

    beside_node = measured

    def in_crowd(self, at):
        return None

    def at_node(self, begins=False):
        reading = self.measured()
        return reading.at, reading


class Records:
    """The recorder's records, newest first."""

    def __init__(self, *runs):
        self.runs = {run.prompt_id: run for run in runs}

    def add(self, run):
        self.runs = {run.prompt_id: run, **self.runs}

    def newest_ids(self):
        return list(self.runs)

    def look(self, prompt_id, read):
        run = self.runs.get(prompt_id)
        return None if run is None else read(run)


def play(recorder, prompt_id, *node_ids, end=True):
    """Let the executor run these nodes."""
    recorder.prompt_resets()
    recorder.prompt_begins(prompt_id, Graph(*node_ids), [])
    for node_id in node_ids:
        recorder.node_starts(node_id, None, prompt_id)
        recorder.node_finishes(node_id, None, prompt_id)
    if end:
        recorder.prompt_leaves()
