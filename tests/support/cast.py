"""Graphs around Cast bf16, and the answers of the probes in them."""

import json

from tools.client import node_texts
from tools.models import TEST_CHECKPOINT_FP16, TEST_LORA

FLOAT32 = ("--fp32-unet", "--fp32-vae", "--fp32-text-enc")


def float32_device(sim, **options):
    """A simulated GPU whose ComfyUI keeps every model in float32, and those of earlier tests."""
    return sim(4096, *FLOAT32, **options)


def add_cast(graph, model, dtype="bfloat16", keep_float32=""):
    return graph.add("HeadroomCastBF16", model=model, dtype=dtype, keep_float32=keep_float32)


def load(graph, checkpoint=TEST_CHECKPOINT_FP16):
    """The float16 file has digits that bfloat16 rounds away."""
    return graph.add("CheckpointLoaderSimple", ckpt_name=checkpoint.split("/")[1])


def with_lora(graph, model, strength=1.0):
    return graph.add("LoraLoaderModelOnly", model=model, strength_model=strength,
                     lora_name=TEST_LORA.split("/")[1])


def near(graph, a, b):
    return graph.add("CastNear", a=a, b=b)


def probe(graph, model, **inputs):
    return graph.add("CastProbe", model=model, **inputs)


def run(client, graph):
    """The JSON that the probes showed, and the reports, by node id."""
    texts = node_texts(client.run(graph.prompt, timeout=600))
    return {
        node_id: json.loads(text) if text.startswith("{") else text
        for node_id, text in texts.items()
    }
