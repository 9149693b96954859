"""An edit of the advice in a file of the canvas: the prompt is the edited one, nothing overlaps."""

import copy

import pytest
from support.canvas_files import INFOS, assert_links_are_whole, assert_same_prompt, by_id
from support.workflow_layout import box

from tools.errors import DevError
from tools.ui_edit import edited_workflow
from tools.ui_prompt import api_prompt

WORKFLOW = {
    "last_node_id": 4, "last_link_id": 4, "extra": {},
    "nodes": [
        {"id": 1, "type": "Load", "pos": [0, 0], "size": [200, 100], "inputs": [],
         "widgets_values": ["b"],
         "outputs": [{"name": "MODEL", "type": "MODEL", "links": [1]},
                     {"name": "CLIP", "type": "CLIP", "links": [2]}]},
        {"id": 2, "type": "Encode", "pos": [240, 0], "size": [200, 100], "widgets_values": ["cat"],
         "inputs": [{"name": "clip", "type": "CLIP", "link": 2}],
         "outputs": [{"name": "CONDITIONING", "type": "CONDITIONING", "links": [3]}]},
        {"id": 3, "type": "Sample", "title": "Mine", "pos": [480, 0], "size": [200, 100],
         "widgets_values": [7, "fixed"],
         "inputs": [{"name": "model", "type": "MODEL", "link": 1},
                    {"name": "positive", "type": "CONDITIONING", "link": 3}],
         "outputs": [{"name": "LATENT", "type": "LATENT", "links": []}]},
        {"id": 4, "type": "Note", "pos": [240, 140], "size": [200, 300], "widgets_values": ["!"]},
    ],
    "links": [[1, 1, 0, 3, 0, "MODEL"], [2, 1, 1, 2, 0, "CLIP"], [3, 2, 0, 3, 1, "CONDITIONING"]],
}
GUARD = {"op": "insert", "ref": "a", "class_type": "HeadroomOOMGuard",
         "inputs": {"max_attempts": 3},
         "from": ["1", 0], "through": "model", "out": 0, "to": [["3", "model"]]}
OFFLOAD = {"op": "insert", "ref": "b", "class_type": "HeadroomOffloadModel", "from": ["2", 0],
           "inputs": {"scope": "this model"}, "through": "after", "out": 1,
           "to": [["3", "positive"]], "links": {"model": ["1", 1]}}
REPLACE = {"op": "replace", "node": "2", "class_type": "HeadroomEncodeToCPU",
           "keep": {"clip": "clip", "text": "text"}, "inputs": {"cache": "disk"},
           "outputs": {"0": 0}}
SET = {"op": "set", "node": "3", "input": "seed", "value": 11}


def edited(*steps, workflow=WORKFLOW):
    before = copy.deepcopy(workflow)
    found = edited_workflow(workflow, {"steps": list(steps)}, INFOS)
    assert workflow == before
    return found


@pytest.mark.parametrize("steps", [
    (GUARD,), (OFFLOAD,), (GUARD, OFFLOAD), (REPLACE,), (REPLACE, OFFLOAD), (SET,),
    (GUARD, {**GUARD, "ref": "c"}), (GUARD, OFFLOAD, REPLACE, SET), ({**GUARD, "to": []},),
])
def test_the_prompt_of_the_edited_file_is_the_edited_prompt(steps):
    workflow = edited(*steps)
    assert_links_are_whole(workflow)
    assert_same_prompt(WORKFLOW, workflow, steps)


def test_the_users_nodes_keep_their_places_titles_and_values_and_new_ones_overlap_nothing():
    before, after = by_id(WORKFLOW), by_id(edited(GUARD, OFFLOAD, {**GUARD, "ref": "c"}))
    for node_id, node in before.items():
        for key in ("pos", "size", "title", "widgets_values", "type"):
            assert after[node_id].get(key) == node.get(key)
    boxes = [box(node) for node in after.values()]
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            assert (one[2] <= other[0] or other[2] <= one[0]
                    or one[3] <= other[1] or other[3] <= one[1]), (one, other)


@pytest.mark.parametrize("frame", [
    [-20, -80, 480, 700],  # there is room in it
    [-20, -80, 300, 200],  # too narrow
    [230, -500, 800, 480],  # its lower edge is where the node would lie
    [250, -20, 600, 600],  # its title is
])
def test_a_new_node_lies_across_no_frame_and_hides_no_title(frame):
    workflow = {**copy.deepcopy(WORKFLOW), "groups": [
        {"title": "Mine", "bounding": frame, "font_size": 24, "flags": {}}]}
    made = edited(GUARD, {**GUARD, "ref": "c"}, workflow=workflow)
    left, top, right, bottom = frame[0], frame[1], frame[0] + frame[2], frame[1] + frame[3]
    title = 34
    for node in made["nodes"][len(WORKFLOW["nodes"]):]:
        one = box(node)
        inside = (left <= one[0] and one[2] <= right and top + title <= one[1]
                  and one[3] <= bottom)
        outside = one[2] <= left or right <= one[0] or one[3] <= top or bottom <= one[1]
        assert inside or outside, one
        assert one[0] >= 200  # right of what it comes after


def test_another_class_keeps_the_name_that_the_user_saw():
    node = by_id(edited(REPLACE))[2]
    assert (node["title"], node["pos"]) == ("Encode it", [240, 0])
    assert node["widgets_values"] == ["cat", "disk"]


def test_a_reroute_on_the_wire_stays_and_both_its_ends_are_found():
    workflow = copy.deepcopy(WORKFLOW)
    workflow["nodes"].append({
        "id": 9, "type": "Reroute", "pos": [240, -90], "size": [75, 26],
        "inputs": [{"name": "", "type": "*", "link": 1}],
        "outputs": [{"name": "", "type": "MODEL", "links": [8]}]})
    by_id(workflow)[3]["inputs"][0]["link"] = 8
    workflow["links"] = [[1, 1, 0, 9, 0, "MODEL"], *workflow["links"][1:], [8, 9, 0, 3, 0, "MODEL"]]
    made = edited(GUARD, workflow=workflow)
    assert api_prompt(made, INFOS)["3"]["inputs"]["model"] == ["10", 0]
    assert api_prompt(made, INFOS)["10"]["inputs"]["model"] == ["1", 0]
    assert 9 in by_id(made)


def test_a_wire_into_a_value_is_kept_with_the_new_class():
    workflow = copy.deepcopy(WORKFLOW)
    workflow["nodes"].append({"id": 9, "type": "PrimitiveNode", "pos": [0, 200], "size": [200, 80],
                              "widgets_values": ["a dog"],
                              "outputs": [{"name": "STRING", "type": "STRING", "links": [9]}]})
    by_id(workflow)[2]["inputs"].append(
        {"name": "text", "type": "STRING", "widget": {"name": "text"}, "link": 9})
    workflow["links"].append([9, 9, 0, 2, 1, "STRING"])
    made = edited(REPLACE, workflow=workflow)
    assert_links_are_whole(made)
    assert api_prompt(made, INFOS)["2"]["inputs"]["text"] == "a dog"


@pytest.mark.parametrize("step, words", [
    ({**GUARD, "to": [["3:5", "model"]]}, "no node 3:5"),
    ({**GUARD, "to": [["77", "model"]]}, "no node 77"),
    ({**REPLACE, "outputs": {}}, "outputs that Encode to CPU does not have"),
    ({**GUARD, "class_type": "HeadroomNew"}, "has no node 'HeadroomNew'"),
])
def test_what_cannot_be_done_is_a_sentence(step, words):
    with pytest.raises(DevError, match=words):
        edited(step)
