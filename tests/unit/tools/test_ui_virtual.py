"""Nodes that only the page has, and values that only the page knows of."""

import json

import pytest
from support.saved import INFOS, PROMPT, folded, node_of, saved

from tools.errors import DevError
from tools.jobs import read_prompt
from tools.node_info import node_infos
from tools.ui_prompt import BYPASSED, MUTED, api_prompt

LABEL = {"id": 70, "type": "Label (rgthree)", "properties": {"fontSize": 20}, "inputs": [],
         "outputs": []}
NOTE_PLUS = {"id": 71, "type": "Note Plus (mtb)", "widgets_values": ["hello"], "inputs": [],
             "outputs": []}
GROUPS = {"id": 72, "type": "Fast Groups Muter (rgthree)",
          "outputs": [{"name": "OPT_CONNECTION", "type": "*", "links": None}]}


def without_wire(workflow):
    """The small workflow with its model handed on by name, from setter 60 to getter 61."""
    workflow["nodes"] += [
        {"id": 60, "type": "SetNode", "widgets_values": ["base"], "title": "Set_base",
         "inputs": [{"name": "MODEL", "type": "MODEL", "link": 1}],
         "outputs": [{"name": "*", "type": "*", "links": None}]},
        {"id": 61, "type": "GetNode", "widgets_values": ["base"], "inputs": [],
         "outputs": [{"name": "MODEL", "type": "MODEL", "links": [62]}]},
    ]
    workflow["links"][0][3:5] = [60, 0]
    workflow["links"].append([62, 61, 0, 4, 0, "MODEL"])
    node_of(workflow, "Sample")["inputs"][0]["link"] = 62
    return workflow


def renamed(workflow, kinds):
    for node in workflow["nodes"]:
        node["type"] = kinds.get(node["type"], node["type"])
    return workflow


@pytest.mark.parametrize("kinds", [{}, {"SetNode": "easy setNode", "GetNode": "easy getNode"}])
def test_a_value_handed_on_by_name_comes_from_where_it_was_set(kinds):
    assert api_prompt(renamed(without_wire(saved()), kinds), INFOS) == PROMPT


def test_a_setter_hands_on_by_wire_too_and_a_muted_one_by_name():
    workflow = without_wire(saved())
    node_of(workflow, "SetNode")["mode"] = MUTED
    assert api_prompt(workflow, INFOS) == PROMPT
    node_of(workflow, "SetNode")["mode"] = 0
    workflow["links"][-1][1] = 60
    assert api_prompt(workflow, INFOS) == PROMPT


@pytest.mark.parametrize("mode", [MUTED, BYPASSED])
def test_a_getter_that_is_switched_off_gives_nothing(mode):
    workflow = without_wire(saved())
    node_of(workflow, "GetNode")["mode"] = mode
    assert "model" not in api_prompt(workflow, INFOS)["4"]["inputs"]


def test_a_value_set_around_a_subgraph_is_got_inside():
    workflow, graph = folded()
    setter = node_of(without_wire(saved()), "SetNode")
    workflow["nodes"].append(setter)
    workflow["links"][0][3:5] = [60, 0]
    workflow["nodes"][3]["inputs"] = []
    graph["nodes"].append({"id": 61, "type": "GetNode", "widgets_values": ["base"],
                           "outputs": [{"name": "MODEL", "type": "MODEL", "links": [1]}]})
    graph["links"][0].update(origin_id=61, origin_slot=0)
    assert api_prompt(workflow, INFOS)["7:4"]["inputs"]["model"] == ["2", 0]


def test_notes_labels_and_switches_of_packs_are_left_out():
    workflow = saved()
    workflow["nodes"] += [LABEL, NOTE_PLUS, GROUPS]
    assert api_prompt(workflow, INFOS) == PROMPT
    workflow["nodes"].append(
        {"id": 73, "type": "Fast Bypasser (rgthree)",
         "inputs": [{"name": "", "type": "*", "link": 90}],
         "outputs": [{"name": "OPT_CONNECTION", "type": "*", "links": None}]})
    workflow["links"].append([90, 4, 0, 73, 0, "LATENT"])
    assert api_prompt(workflow, INFOS) == PROMPT


@pytest.mark.parametrize("lacking", [
    {**NOTE_PLUS, "properties": {"Node name for S&R": "Purge everything"}},
    {**NOTE_PLUS, "inputs": [{"name": "image", "type": "IMAGE", "link": 2}]},
    {**NOTE_PLUS, "outputs": [{"name": "model", "type": "MODEL", "links": [1]}]},
])
def test_a_node_of_a_pack_that_is_not_there_is_no_note(lacking):
    workflow = saved()
    workflow["nodes"].append(lacking)
    with pytest.raises(DevError, match=r"no node 'Note Plus \(mtb\)' \(node 71 of the workflow\)"):
        api_prompt(workflow, INFOS)


def broadcast(kind, link=2, **more):
    return {"id": 80, "type": kind, "inputs": [{"name": "anything", "type": "*", "link": link}],
            "outputs": [], **more}


KNOWN = {**INFOS, **node_infos({"Anything Everywhere": {"input": {}, "output": []}})}


@pytest.mark.parametrize("node", [
    broadcast("Anything Everywhere"), broadcast("Prompts Everywhere"),
    broadcast("Seed Everywhere", None), broadcast("Load", None, properties={"ue_convert": True}),
])
def test_values_that_only_the_page_distributes_need_an_export(node):
    workflow = saved()
    workflow["nodes"].append(node)
    with pytest.raises(DevError, match=rf"Node 80 \({node['type']}\) sends values.*Export \(API\)"):
        api_prompt(workflow, KNOWN)


@pytest.mark.parametrize("node", [
    broadcast("Anything Everywhere", None), broadcast("Anything Everywhere", mode=MUTED),
    broadcast("Anything Everywhere", mode=BYPASSED),
])
def test_nodes_that_send_nothing_need_no_export(node):
    workflow = saved()
    workflow["nodes"].append(node)
    prompt = api_prompt(workflow, KNOWN)
    assert {key: prompt[key] for key in PROMPT} == PROMPT


# ---------------------------------------------------- values that the page alone knows


PAGE = node_infos({
    "Load3D": {"input": {"required": {
        "model_file": ["COMBO", {"options": ["none"]}], "image": ["LOAD_3D", {}],
        "width": ["INT", {"default": 1024}], "height": ["INT", {"default": 1024}]}}},
    "CustomCombo": {"input": {"required": {"choice": ["COMBO", {"options": []}]}}},
    "ImageCompositor": {"input": {"required": {
        "layers": ["LAYERS", {}],
        "compositor": ["COMPOSITOR", {"default": {}, "socketless": True}]}}},
    "Boxes": {"input": {"required": {
        "width": ["INT", {}], "boxes": ["BOUNDING_BOXES", {"default": [], "socketless": False}],
        "seed": ["INT", {}]}}},
})


def inputs_of(kind, values, **more):
    node = {"id": 1, "type": kind, "widgets_values": values, **more}
    return api_prompt({"nodes": [node]}, PAGE)["1"]["inputs"]


BUTTONS = ["upload3dmodel", "uploadExtraResources", "clear"]


@pytest.mark.parametrize("buttons", [[], BUTTONS[:1], BUTTONS])
def test_buttons_among_saved_values_do_not_shift_those_behind_them(buttons):
    assert inputs_of("Load3D", ["toy.glb", *buttons, "", 640, 512]) == {
        "model_file": "toy.glb", "image": "", "width": 640, "height": 512}


@pytest.mark.parametrize("values, wanted", [
    (["9:16", 1, "16:9", "9:16", ""], {"index": 1, "option1": "16:9", "option2": "9:16",
                                       "option3": ""}),
    (["9:16", "16:9", "9:16"], {"option1": "16:9", "option2": "9:16"}),
    (["9:16"], {}),
])
def test_inputs_that_no_server_tells_of_are_kept(values, wanted):
    assert inputs_of("CustomCombo", values) == {"choice": "9:16", **wanted}
    named = {"choice": "9:16", **wanted}
    assert inputs_of("CustomCombo", values, widgets_values_named=named) == named


def test_values_that_the_layer_editor_has_saved_are_kept():
    saved = {"version": 1, "layers": [{"x": 3}]}
    assert inputs_of("ImageCompositor", [saved]) == {"compositor": saved}
    named = {"compositor": saved}
    assert inputs_of("ImageCompositor", [saved], widgets_values_named=named) == named


def test_names_saved_with_the_values_go_before_their_places():
    named = {"width": 64, "boxes": [], "seed": 3, "control_after_generate": "fixed"}
    wanted = {"width": 64, "boxes": {"__value__": []}, "seed": 3}  # a plain list would be a wire
    assert inputs_of("Boxes", [3, [], 64], widgets_values_named=named) == wanted
    assert inputs_of("Boxes", [64, [], 3, "fixed"]) == wanted


def test_values_that_the_page_makes_when_it_queues_need_an_export(tmp_path):
    class Server:
        def get_json(self, path):
            return {"Load3D": {"input": {"required": {"image": ["LOAD_3D", {}]}}}}

    file = tmp_path / "a.json"
    node = {"id": 1, "type": "Load3D", "widgets_values": [""]}
    file.write_text(json.dumps({"nodes": [node]}), encoding="utf-8")
    with pytest.raises(DevError, match=r"Node 1 \(Load3D\) gets its image from the page"):
        read_prompt(file, Server())
