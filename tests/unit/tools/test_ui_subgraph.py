"""Subgraphs are unfolded into the prompt that the canvas would queue, with the values shown."""

import copy

import pytest
from support import saved as small
from support.canvas_files import INFOS, by_id
from support.subgraph_files import WORKFLOW, changed, deeper, twice

from tools.errors import DevError
from tools.node_info import node_infos
from tools.ui_prompt import BYPASSED, MUTED, api_prompt
from tools.ui_subgraph import INPUTS as INSIDE


def test_inner_nodes_get_the_ids_that_the_canvas_gives_them_and_the_values_set_outside():
    assert api_prompt(WORKFLOW, INFOS) == {
        "1": {"inputs": {"name": "b"}, "class_type": "Load", "_meta": {"title": "Load"}},
        "30:12": {"inputs": {"text": "a cat", "clip": ["1", 1]}, "class_type": "Encode",
                  "_meta": {"title": "Encode it"}},
        "30:13": {"inputs": {"seed": 7, "model": ["1", 0], "positive": ["30:12", 0]},
                  "class_type": "Sample", "_meta": {"title": "Sample"}},
        "31": {"inputs": {"latent": ["30:13", 0]}, "class_type": "Save",
               "_meta": {"title": "Save"}},
    }


def test_each_instance_has_its_own_values_also_in_a_file_that_lists_none_by_name():
    def unnamed(workflow, inner):
        twice(workflow, inner)
        del by_id(workflow)[40]["properties"]

    prompt = api_prompt(changed(unnamed), INFOS)
    assert prompt["30:12"]["inputs"]["text"] == "a cat"
    assert prompt["40:12"]["inputs"]["text"] == "a dog"


def test_a_value_that_no_instance_sets_is_the_inner_nodes_own():
    prompt = api_prompt(changed(lambda w, _: by_id(w)[30].update(widgets_values=[])), INFOS)
    assert prompt["30:12"]["inputs"]["text"] == "inside"


def test_subgraphs_inside_of_subgraphs_are_unfolded():
    prompt = api_prompt(changed(deeper), INFOS)
    assert prompt["30:50:13"]["inputs"]["positive"] == ["30:50:12", 0]
    assert prompt["30:50:12"]["inputs"] == {"text": "a cat", "clip": ["1", 1]}
    assert prompt["31"]["inputs"]["latent"] == ["30:50:13", 0]


def test_an_instance_that_is_off_passes_nothing_and_a_bypassed_one_what_has_its_type():
    for mode in (MUTED, BYPASSED):
        off = api_prompt(changed(lambda w, _, mode=mode: by_id(w)[30].update(mode=mode)), INFOS)
        assert "latent" not in off["31"]["inputs"] and set(off) == {"1", "31"}

    def bypassed(workflow, _):
        by_id(workflow)[30].update(mode=BYPASSED)
        by_id(workflow)[30]["outputs"][0]["type"] = "MODEL"

    assert api_prompt(changed(bypassed), INFOS)["31"]["inputs"]["latent"] == ["1", 0]


def test_a_subgraph_inside_of_itself_is_a_sentence():
    with pytest.raises(DevError, match="'Sampling' contains itself"):
        api_prompt(changed(lambda w, inner: inner["nodes"].append({"id": 14, "type": "sub"})),
                   INFOS)


def test_nodes_that_share_an_input_get_the_value_that_is_shown_for_it():
    workflow, graph = small.folded()
    second = copy.deepcopy(graph["nodes"][0])
    second.update(id=6, widgets_values=[5, "fixed", 99, "slow"])
    second["inputs"][0]["link"], second["inputs"][3]["link"] = None, 13
    graph["nodes"].append(second)
    graph["links"].append(small.link(13, INSIDE, 1, 6, 3, "INT"))
    assert api_prompt(workflow, small.INFOS)["7:6"]["inputs"]["steps"] == 20


def test_a_node_that_the_server_lacks_is_named_with_the_pack_that_the_file_names():
    workflow = small.saved()
    infos = {name: info for name, info in small.INFOS.items() if name != "Save"}
    for pack, words in (("comfy-core", "update ComfyUI.*partner nodes"), ("kj", "the pack 'kj'")):
        small.node_of(workflow, "Save")["properties"] = {"cnr_id": pack}
        with pytest.raises(DevError, match=words):
            api_prompt(workflow, infos)


@pytest.mark.parametrize("spec, value", [
    (["COLOR", {"default": "#fff"}], "#fff"), (["COMBO", {"options": ["a", "b"]}], "a"),
    (["FLOAT,INT", {"default": 25.0, "widgetType": "FLOAT"}], 25.0), (["IMAGECOMPARE", {}], ""),
    (["BOOLEAN", {}], False),
])
def test_a_widget_that_the_file_lacks_has_what_the_canvas_would_show(spec, value):
    infos = node_infos({**small.OBJECT_INFO, "Save": {"input": {"required": {
        "latent": ["LATENT"], "new": spec}}, "output": []}})
    workflow = small.saved()
    small.node_of(workflow, "Save")["widgets_values"] = []
    assert api_prompt(workflow, infos)["5"]["inputs"] == {"new": value, "latent": ["4", 0]}
