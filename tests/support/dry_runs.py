"""A sampler's node and a failure, as a dry run tells them."""

from types import SimpleNamespace

from tools.fit_verdict import Node


def sampler(*steps, node_id="3", title="KSampler"):
    return Node(node_id, "KSampler", title, 4000.0, 3600.0, 0.0, 0, steps)


def failure(message, out_of_memory=True, node_id="3"):
    return SimpleNamespace(node_id=node_id, node_type="KSampler", exception_message=message,
                           out_of_memory=out_of_memory)
