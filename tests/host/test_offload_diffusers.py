"""The published case in a real server: encode_prompt alone, then Offload Model."""

import json
from pathlib import Path

import pytest

from tools.client import node_texts
from tools.graph import Graph, add_offload

pytestmark = pytest.mark.host
PACK = Path(__file__).parent / "packs" / "headroom_probe_diffusers"


def test_the_last_text_encoder_leaves_and_the_pipeline_encodes_the_same_again(sim):
    client = sim(1024, packs=(PACK,)).client
    graph = Graph()
    encoded = graph.add("ProbeEncodedPipeline")
    before = graph.add("ProbePipeline", pipeline=encoded[0])
    offload = add_offload(graph, model=before)
    after = graph.add("ProbePipeline", pipeline=offload)
    again = graph.add("ProbePipeline", pipeline=after, again=encoded[1])
    texts = node_texts(client.run(graph.prompt))
    assert json.loads(texts[before.id])["on_gpu"] == ["text_encoder"]  # the published problem
    assert json.loads(texts[after.id])["on_gpu"] == []
    assert json.loads(texts[again.id])["same"] is True
    report = texts[offload.id]
    assert "not managed by ComfyUI: its own maybe_free_model_hooks" in report
