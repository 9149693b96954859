"""What the nodes of the pack `headroom_probe` say, and loaders of the models of tests."""

import json

from tools.client import node_texts
from tools.graph import add_checkpoint
from tools.models import TEST_CHECKPOINT


def file_name(model):
    """The name of a model of `tools.models` as loaders write it."""
    return model.split("/")[1]


def load(graph, file=TEST_CHECKPOINT):
    return add_checkpoint(graph, file)


def answers(entry):
    """The JSON answers of the probe nodes by node id."""
    return {
        node_id: json.loads(text)
        for node_id, text in node_texts(entry).items()
        if text.startswith("{")
    }
