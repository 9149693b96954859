"""Prompts that run out of memory in a chosen node, and how they ended."""

import io
import json
import uuid

from PIL import Image

from tools.graph import Graph
from tools.rescued import pictures

AT_ONCE = {"times": 1, "error": ""}


def key():
    return uuid.uuid4().hex


def chain(*, fails, **once):
    """A number that is written, runs out of memory if `fails`, and is written once more."""
    graph, name = Graph(), key()
    number = graph.add("EmptyImage", "image", width=8, height=8, batch_size=1, color=7)
    graph.add("OomWrites", "first", value=number, key=f"{name} first")
    once = graph.add("OomOnce", "once", value=number, key=name,
                     **{**AT_ONCE, **once, **({} if fails else {"times": 0})})
    graph.add("OomWrites", "last", value=once, key=f"{name} last")
    return graph.prompt


def written(client, entry, node_id):
    texts = entry["outputs"].get(node_id, {}).get("text")
    return None if texts is None else json.loads(texts[0])


def pixels(client, entry):
    """The pixels of each picture that a run saved."""
    return [Image.open(io.BytesIO(one)).tobytes() for one in pictures(client, entry)]


def told(gpu, prompt_id):
    return gpu.client.get_json(f"/headroom/runs/{prompt_id}")
