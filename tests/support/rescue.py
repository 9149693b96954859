"""Prompts that run out of memory in a chosen node, and how they ended."""

import io
import json
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from PIL import Image

from tools.client import cached_nodes
from tools.graph import Graph

RESCUE = {"headroom": {"rescue": True}}
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


@dataclass
class FirstAndRerun:
    """The history entries of a prompt's first run and of its rerun, which is None without one."""

    first_id: str
    first: dict[str, Any]
    rerun_id: str | None = None
    rerun: dict[str, Any] | None = None

    @property
    def last(self):
        return self.rerun if self.rerun is not None else self.first

    @property
    def succeeded(self):
        return self.last["status"]["status_str"] == "success"

    @property
    def finished(self):
        """The nodes that had finished in the first run."""
        error = dict(self.first["status"]["messages"]).get("execution_error", {})
        return set(error.get("executed", [])) | cached_nodes(self.first)

    @property
    def failed(self):
        return dict(self.first["status"]["messages"]).get("execution_error", {}).get("node_id")

    @property
    def cached(self):
        """The nodes that came from the cache in the rerun."""
        return cached_nodes(self.rerun) if self.rerun is not None else set()


def run_and_rerun(client, prompt, extra_data=RESCUE, timeout=600.0):
    """Run a prompt, and its rerun if it gets one."""
    first_id = client.queue(prompt, extra_data=extra_data)
    runs = FirstAndRerun(first_id, client.wait(first_id, timeout))
    runs.rerun_id = client.get_json(f"/headroom/runs/{first_id}")["rescued_as"]
    if runs.rerun_id is not None:
        runs.rerun = client.wait(runs.rerun_id, timeout)
    return runs


def failing(gpu, prompt, extra_data=RESCUE, **fault):
    """Run a prompt in which allocations fail, by default a large one once, and its rerun."""
    gpu.arm_fault(**fault or {"above_bytes": 100_000, "times": 1})
    runs = run_and_rerun(gpu.client, prompt, extra_data)
    gpu.disarm()
    return runs


def ran_in(server, prompt_id):
    return {node["node_id"] for node in told(server, prompt_id)["nodes"] if not node["cached"]}


def video(seed=7, write="SaveLatent", **inputs):
    """DiT class: a tiny Wan of the test nodes, sampled through a guider."""
    graph = Graph()
    wan = graph.add("OomTinyWan", "wan", batch=1)
    guider = graph.add("CFGGuider", "guider", model=wan[0], positive=wan[1], negative=wan[2],
                       cfg=4.0)
    sampler = graph.add("KSamplerSelect", "select", sampler_name="euler")
    sigmas = graph.add("BasicScheduler", "sigmas", model=wan[0], scheduler="normal", steps=2,
                       denoise=1.0)
    noise = graph.add("RandomNoise", "noise", noise_seed=seed)
    sample = graph.add("SamplerCustomAdvanced", "sample", noise=noise, guider=guider,
                       sampler=sampler, sigmas=sigmas, latent_image=wan[3])
    saved = inputs or {"samples": sample, "filename_prefix": "rescue"}
    graph.add(write, "save", **{name: sample if value is None else value
                                for name, value in saved.items()})
    return graph


def pictures(client, *entries):
    """The files that these runs saved, in their order."""
    return [client.get_bytes("/view?" + urlencode(file)) for entry in entries
            for out in entry["outputs"].values() for kind in ("images", "latents")
            for file in out.get(kind, [])]
