"""From a workflow of the canvas to a prompt."""

import pytest
from support.saved import INFOS, OBJECT_INFO, PROMPT, WORKFLOW, node_of, saved

from tools import ui_prompt
from tools.node_info import node_infos


def test_a_saved_workflow_becomes_the_prompt_that_the_canvas_would_queue():
    assert ui_prompt.api_prompt(WORKFLOW, INFOS) == PROMPT


def test_links_of_either_form_are_read():
    workflow = saved()
    names = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
    workflow["links"] = [dict(zip(names, link, strict=True)) for link in workflow["links"]]
    assert ui_prompt.api_prompt(workflow, INFOS) == PROMPT


def test_a_muted_node_is_left_out_and_its_wires_too():
    workflow = saved()
    node_of(workflow, "Picture")["mode"] = ui_prompt.MUTED
    prompt = ui_prompt.api_prompt(workflow, INFOS)
    assert "3" not in prompt and "image" not in prompt["4"]["inputs"]


def test_a_bypassed_node_passes_on_what_has_the_type_of_its_output():
    workflow = saved()
    node_of(workflow, "Sample")["mode"] = ui_prompt.BYPASSED
    node_of(workflow, "Sample")["outputs"][0]["type"] = "IMAGE"
    assert ui_prompt.api_prompt(workflow, INFOS)["5"]["inputs"]["latent"] == ["3", 0]


def test_a_bypassed_node_without_a_matching_input_passes_nothing_on():
    workflow = saved()
    node_of(workflow, "Sample")["mode"] = ui_prompt.BYPASSED
    assert "latent" not in ui_prompt.api_prompt(workflow, INFOS)["5"]["inputs"]


def test_reroutes_and_primitives_are_resolved():
    workflow = saved()
    load, sample = node_of(workflow, "Load"), node_of(workflow, "Sample")
    workflow["nodes"] += [
        {"id": 90, "type": "Reroute", "inputs": [{"name": "", "type": "*", "link": 91}],
         "outputs": [{"name": "", "type": "MODEL", "links": [92]}]},
        {"id": 93, "type": "PrimitiveNode", "widgets_values": [77, "fixed"],
         "outputs": [{"name": "INT", "type": "INT", "links": [94]}]},
    ]
    workflow["links"] += [[91, load["id"], 0, 90, 0, "MODEL"],
                          [92, 90, 0, sample["id"], 0, "MODEL"],
                          [94, 93, 0, sample["id"], 3, "INT"]]
    sample["inputs"][0]["link"] = 92
    sample["inputs"].append({"name": "seed", "type": "INT", "widget": {"name": "seed"}, "link": 94})
    inputs = ui_prompt.api_prompt(workflow, INFOS)["4"]["inputs"]
    assert (inputs["model"], inputs["seed"]) == (["2", 0], 77)


def test_widget_values_by_name_and_those_a_newer_node_has_gained_are_filled_in():
    workflow = saved()
    node_of(workflow, "Sample")["widgets_values"] = {"seed": 1, "steps": 2, "mode": "fast"}
    assert ui_prompt.api_prompt(workflow, INFOS)["4"]["inputs"]["steps"] == 2
    node_of(workflow, "Sample")["widgets_values"] = [9, "fixed"]
    assert ui_prompt.api_prompt(workflow, INFOS)["4"]["inputs"]["steps"] == 20


def choice(*options):
    return ["COMFY_DYNAMICCOMBO_V3", {"options": [
        {"key": key, "inputs": {"required": inputs}} for key, inputs in options]}]


@pytest.mark.parametrize("values, wanted", [
    (["mp4", 5, "out"], {"format": "mp4", "format.quality": 5, "name": "out"}),
    (["gif", "out"], {"format": "gif", "name": "out"}),
    (["mp4"], {"format": "mp4", "format.quality": 9, "name": "x"}),
    ([], {"format": "gif", "name": "x"}),
    ({"format": "mp4", "format.quality": 5}, {"format": "mp4", "format.quality": 5, "name": "x"}),
])
def test_a_choice_brings_the_inputs_of_its_value(values, wanted):
    format = choice(("gif", {}), ("mp4", {"quality": ["INT", {"default": 9}],
                                          "images": ["COMFY_AUTOGROW_V3", {"template": {}}]}))
    infos = node_infos({**OBJECT_INFO, "Save": {"input": {"required": {
        "latent": ["LATENT"], "format": format, "name": ["STRING", {"default": "x"}]}},
        "output": []}})
    workflow = saved()
    node_of(workflow, "Save")["widgets_values"] = values
    inputs = ui_prompt.api_prompt(workflow, infos)["5"]["inputs"]
    assert {name: value for name, value in inputs.items() if name != "latent"} == wanted
