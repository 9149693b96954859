"""Move to CPU in a real ComfyUI: LATENT, IMAGE, CONDITIONING and what other packs hand around."""

import json
from pathlib import Path

import pytest

from devtools.client import node_texts
from devtools.graph import Graph

pytestmark = pytest.mark.host

PACK = Path(__file__).parent / "packs" / "headroom_probe_encoders"


@pytest.fixture(scope="module")
def client(serve):
    return serve(packs=[PACK]).client()


def test_latents_and_images_come_out_with_the_same_bits(client):
    graph = Graph()
    values = [
        graph.add("EmptyLatentImage", width=64, height=64, batch_size=2),
        graph.add("EmptyImage", width=32, height=16, batch_size=1, color=0x123456),
    ]
    moves = [graph.add("HeadroomMoveToCPU", value=value) for value in values]
    shown = [graph.add("ProbeTensor", value=value) for value in (*values, *moves)]
    same = [graph.add("ProbeSame", a=m, b=v) for m, v in zip(moves, values, strict=True)]
    texts = node_texts(client.run(graph.prompt))
    told = [texts[node.id] for node in shown]
    assert told[:2] == told[2:] and told[0] != told[1]
    # A copy, so that nothing of the first memory is kept alive by it.
    assert [json.loads(texts[node.id])["same"] for node in same] == [False, False]
    assert "0.0 MiB moved: all 1 tensors" in texts[moves[0].id]


def test_conditioning_comes_out_equal_and_in_memory_of_its_own(client):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="flux", seed=0)
    core = graph.add("FluxGuidance", guidance=2.0,
                     conditioning=graph.add("CLIPTextEncode", clip=clip, text="a (cat:1.2)"))
    moved = graph.add("HeadroomMoveToCPU", value=core)
    check = graph.add("ProbeConditioning", a=moved, b=core)
    told = json.loads(node_texts(client.run(graph.prompt))[check.id])
    assert told["same"] and told["numpy_backed"] and told["own_storage"] and told["contiguous"]


def test_a_control_net_in_the_conditioning_is_passed_through_and_named(client):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="sd15", seed=0)
    core = graph.add("CLIPTextEncode", clip=clip, text="a cat")
    net = graph.add("ControlNetLoader", control_net_name="headroom_test_controlnet.safetensors")
    image = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=0)
    applied = graph.add("ControlNetApply", conditioning=core, control_net=net, image=image,
                        strength=1.0)
    moved = graph.add("HeadroomMoveToCPU", value=applied)
    check = graph.add("ProbeConditioning", a=moved, b=applied)
    texts = node_texts(client.run(graph.prompt))
    assert json.loads(texts[check.id])["same"]
    assert "['control']: of class ControlNet, passed through as it is" in texts[moved.id]


def test_models_and_text_pass_through(client):
    graph = Graph()
    module = graph.add("ProbeModule", mib=1)
    moved = graph.add("HeadroomMoveToCPU", value=module)
    same = graph.add("ProbeSame", a=moved, b=module)
    texts = node_texts(client.run(graph.prompt))
    assert json.loads(texts[same.id])["same"]
    assert "of class Linear, passed through as it is" in texts[moved.id]
