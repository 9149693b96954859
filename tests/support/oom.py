"""Prompts for the tests of OOM Guard on the simulated GPU."""

import json

from tools.graph import add_checkpoint, add_guard
from tools.lab import PACKS
from tools.models import TEST_CHECKPOINT

PACK = PACKS / "headroom_oom_probe"
ONLY_SPLIT = {"free_other_models": False, "offload_weights": False}
# Returning memory answers the first failure, a split the second; loading cannot be split.
IN_STEPS = {"times": 2, "begins": "SAMPLER_SAMPLE"}
SPLIT_TOLERANCE = 1e-3  # of the latent's range


def checkpoint(graph):
    return add_checkpoint(graph, TEST_CHECKPOINT)


def text(graph, loader, words):
    return graph.add("CLIPTextEncode", clip=loader[1], text=words)


def latents(graph, batch=1, size=32):
    return graph.add("EmptyLatentImage", width=size, height=size, batch_size=batch)


def ran(gpu, graph, node):
    """The JSON answer of a probe node at the end of `graph`, and the record of the run."""
    entry = gpu.client.run(graph.prompt, timeout=600)
    record = gpu.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    return json.loads(entry["outputs"][node.id]["text"][0]), record


def run_sweep(gpu, graph, node, guarded, plain, **settings):
    """The answer of a sweep node, and in `actions` what the guard did.

    By default it fails every allocation once.
    """
    defaults = {"first": 1, "last": 10**9, "stride": 1, "times": 1, "kind": "oom"}
    sweep = graph.add(node, guarded=guarded, plain=plain, **{**defaults, **settings})
    answer, record = ran(gpu, graph, sweep)
    print(f"differing after the failure of {answer['differing']}")
    print(f"{answer['tried']} of {answer['allocations']} allocations failed in turn, "
          f"largest difference {answer['largest_difference']:.3g} "
          f"of a range of {answer['range']:.3g}")
    return {**answer, "actions": [event["action"] for event in record["oom"]]}


def sweep_sampling(gpu, graph, model, options=None, **settings):
    """The answer of a sweep over two steps of sampling, guarded with these options."""
    guarded = add_guard(graph, model, **(options or {}))
    return run_sweep(gpu, graph, "OomSweepSampling", guarded, model, **{
        "steps": 2, "cfg": 4.0, "sampler": "euler", **settings})


def assert_same_bits(answer, least=1):
    """Each failure was survived, at least so many, with the bits of a run that has no guard."""
    assert answer["problems"] == []
    assert answer["identical_unfailed"]
    assert answer["largest_difference"] == 0
    assert answer["tried"] >= least


def assert_split(answer):
    """The batch was split, and its result is near that of a run without a failure."""
    assert answer["problems"] == []
    assert any("split the batch" in one for one in answer["actions"])
    assert answer["largest_difference"] <= SPLIT_TOLERANCE * answer["range"]
