"""A prompt that is guarded for its user runs as without guards, whatever other packs do in it."""

import json

import pytest
from support.oom import PACK
from support.rescue import key, told

from tools.graph import Graph, add_checkpoint
from tools.models import TEST_CHECKPOINT

pytestmark = pytest.mark.host


@pytest.fixture
def gpu(sim):
    return sim(2048, packs=(PACK,))


def outcomes(gpu, graph, node):
    """What an output node tells without guards and with them, and which guards there were."""
    found = []
    for guard in (False, True):
        for one in graph.prompt.values():
            if "key" in one["inputs"]:
                one["inputs"]["key"] = key()
        entry = gpu.client.run(graph.prompt, extra_data={"headroom": {"guard": guard}})
        found.append(json.loads(entry["outputs"][node]["text"][0]))
    nodes = told(gpu, entry["prompt_id"])["nodes"]
    return *found, {one["node_id"] for one in nodes if one["class_type"] == "HeadroomOOMGuard"}


def test_a_loop_whose_body_gets_no_model_in_its_later_turns(gpu):
    graph = Graph()
    loader = add_checkpoint(graph, TEST_CHECKPOINT)
    start = graph.add("OomLoopStart", "start", turns=3, value=0, model=loader[0])
    counts = graph.add("OomCounts", "counts", value=start[1], model=start[2])
    graph.add("OomLoopEnd", "end", flow=start[0], value=counts)
    graph.add("OomTells", "tells", value=["end", 0], key="")
    plain, guarded, guards = outcomes(gpu, graph, "tells")
    assert plain == guarded == {"value": [3]}
    assert any(name.endswith(".headroom-guard-start-2") for name in guards)


def test_a_context_that_holds_one_model_of_four(gpu):
    graph = Graph()
    loader = add_checkpoint(graph, TEST_CHECKPOINT)
    context = graph.add("OomContext", "context", model=loader[0])
    graph.add("OomTells", "tells", key="", models=context[1], clip=context[2], vae=context[3],
              upscaler=context[4])
    plain, guarded, guards = outcomes(gpu, graph, "tells")
    assert plain == guarded
    assert plain["clip"] == plain["vae"] == plain["upscaler"] == ["NoneType"]
    assert len(guards) == 5


@pytest.mark.parametrize("count", [0, 2])
def test_a_list_of_models_that_may_be_empty(gpu, count):
    graph = Graph()
    loader = add_checkpoint(graph, TEST_CHECKPOINT)
    models = graph.add("OomModels", "models", model=loader[0], count=count)
    graph.add("OomTells", "tells", key="", models=models)
    plain, guarded, _ = outcomes(gpu, graph, "tells")
    assert plain == guarded
    assert len(plain["models"]) == count
