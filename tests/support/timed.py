"""Prompts of nodes that tell when they ran, and their records."""

import itertools
import json
import threading
import time

from tools.waiting import wait_until

SALT = itertools.count(1)


def node(class_type, seconds=0.02, /, **inputs):
    return {"class_type": class_type, "inputs": {"seconds": seconds, "salt": next(SALT), **inputs}}


def record(client, entry_or_id):
    prompt_id = entry_or_id if isinstance(entry_or_id, str) else entry_or_id["prompt_id"]
    found = client.get_json(f"/headroom/runs/{prompt_id}")
    return found, {item["node_id"]: item for item in found["nodes"]}


def own_times(entry):
    """When each node ran by its own clock, in the seconds of time.time()."""
    texts = {key: output["text"] for key, output in entry["outputs"].items() if "text" in output}
    return {key: [json.loads(text) for text in found] for key, found in texts.items()}


def assert_holds(run, item, own):
    """The recorded span holds what the node saw; the two clocks differ by their resolution."""
    slack, (start, end) = 0.05, (run["started_at"] + at for at in item["spans"][0])
    assert start - slack <= own["began"] and own["ended"] <= end + slack


def assert_apart(items):
    """Spans of nodes that run one at a time do not overlap."""
    assert are_apart([tuple(span) for item in items for span in item["spans"]])


def are_apart(spans):
    return all(one[1] <= other[0] for one, other in itertools.pairwise(sorted(spans)))


def detached(client):
    """When each model was unloaded so far, from and to."""
    entry = client.run({"1": node("TimedDetached")})
    wait_until_idle(client)
    return json.loads(entry["outputs"]["1"]["text"][0])["detached"]


def assert_unloaded_once_each(client, count):
    """So many models were unloaded so far: none twice, and none while another one was."""
    spans = detached(client)
    assert len(spans) == count and are_apart(spans)


def nodes_so_far(client, prompt_id):
    status, found = client.get(f"/headroom/runs/{prompt_id}")
    return {item["node_id"] for item in found["nodes"]} if status == 200 else set()


def wait_until_idle(client):
    """ComfyUI shows a prompt's history a moment before its worker has finished with it."""
    wait_until(lambda: not client.get_json("/headroom/memory")["busy"])


def of_one_moment(figures, ask):
    """What both give at one moment: ComfyUI empties its caches some seconds after a prompt."""
    found = []

    def nothing_changed():
        found[:] = [figures(), ask(), figures()]
        return found[0] == found[2]

    wait_until(nothing_changed)
    return found[:2]


class Later(threading.Thread):
    """A request in a thread of its own; `answer` is what came, `at` when."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call = call
        self.answer = self.at = None
        self.start()

    def run(self):
        self.answer = self.call()
        self.at = time.time()

    def wait(self, seconds=60):
        self.join(seconds)
        assert not self.is_alive()
        return self
