"""Shown and muted values of a subgraph's instance, in the prompt that the canvas would queue."""

import copy

import pytest
from support.saved import INFOS, OBJECT_INFO, SAMPLE, folded, link, node_of, saved

from tools.errors import DevError
from tools.node_info import node_infos
from tools.ui_prompt import BYPASSED, MUTED, api_prompt
from tools.ui_subgraph import INPUTS as INSIDE
from tools.ui_subgraph import OUTPUTS as OUTSIDE


def instance(workflow):
    return next(node for node in workflow["nodes"] if node["id"] == SAMPLE)


def test_values_of_the_subgraph_node_go_before_those_inside():
    workflow, _ = folded()
    instance(workflow)["widgets_values"] = [33]
    assert api_prompt(workflow, INFOS)["7:4"]["inputs"]["steps"] == 33


def test_nodes_that_share_an_input_get_the_value_that_is_shown_for_it():
    workflow, graph = folded()
    second = copy.deepcopy(graph["nodes"][0])
    second.update(id=6, widgets_values=[5, "fixed", 99, "slow"])
    second["inputs"][0]["link"], second["inputs"][3]["link"] = None, 13
    graph["nodes"].append(second)
    graph["links"].append(link(13, INSIDE, 1, 6, 3, "INT"))
    assert api_prompt(workflow, INFOS)["7:6"]["inputs"]["steps"] == 20


def test_a_subgraph_in_a_subgraph_gets_what_is_wired_and_shown():
    workflow, graph = folded()
    inner = {**copy.deepcopy(instance(workflow)), "id": 9}
    outer = {**graph, "id": "graph-2", "nodes": [inner],
             "links": [link(1, INSIDE, 0, 9, 0, "MODEL"), link(12, INSIDE, 1, 9, 1, "INT"),
                       link(3, 9, 0, OUTSIDE, 0, "LATENT")]}
    inner["inputs"].append({"name": "steps", "type": "INT", "link": 12})
    workflow["definitions"]["subgraphs"].append(outer)
    instance(workflow).update(type="graph-2")
    prompt = api_prompt(workflow, INFOS)
    assert prompt["7:9:4"]["inputs"]["model"] == ["2", 0]
    assert prompt["7:9:4"]["inputs"]["steps"] == 20
    assert prompt["5"]["inputs"]["latent"] == ["7:9:4", 0]


@pytest.mark.parametrize("mode", [MUTED, BYPASSED])
def test_nothing_inside_of_a_muted_or_bypassed_subgraph_runs(mode):
    workflow, _ = folded()
    instance(workflow)["mode"] = mode
    prompt = api_prompt(workflow, INFOS)
    assert set(prompt) == {"2", "3", "5"} and "latent" not in prompt["5"]["inputs"]


def test_a_node_that_the_server_lacks_is_named_with_the_pack_that_the_file_names():
    workflow = saved()
    infos = {name: info for name, info in INFOS.items() if name != "Save"}
    for pack, words in (("comfy-core", "update ComfyUI.*partner nodes"), ("kj", "the pack 'kj'")):
        node_of(workflow, "Save")["properties"] = {"cnr_id": pack}
        with pytest.raises(DevError, match=words):
            api_prompt(workflow, infos)


@pytest.mark.parametrize("spec, value", [
    (["COLOR", {"default": "#fff"}], "#fff"), (["COMBO", {"options": ["a", "b"]}], "a"),
    (["FLOAT,INT", {"default": 25.0, "widgetType": "FLOAT"}], 25.0), (["IMAGECOMPARE", {}], ""),
    (["BOOLEAN", {}], False),
])
def test_a_widget_that_the_file_lacks_has_what_the_canvas_would_show(spec, value):
    infos = node_infos({**OBJECT_INFO, "Save": {"input": {"required": {
        "latent": ["LATENT"], "new": spec}}, "output": []}})
    workflow = saved()
    node_of(workflow, "Save")["widgets_values"] = []
    assert api_prompt(workflow, infos)["5"]["inputs"] == {"new": value, "latent": ["4", 0]}
