"""Subgraphs of a workflow file: unfolded into a prompt, and edited in their definitions."""

import copy

import pytest
from support.canvas_files import INFOS, assert_same_prompt, by_id
from support.subgraph_files import SUBGRAPH, WORKFLOW, assert_whole, changed, deeper, twice
from support.workflow_layout import box

from tools.errors import DevError
from tools.ui_edit import edited_workflow
from tools.ui_prompt import BYPASSED, MUTED, api_prompt


def edited(*steps, workflow=WORKFLOW):
    before = copy.deepcopy(workflow)
    found = edited_workflow(workflow, {"steps": list(steps)}, INFOS)
    assert workflow == before
    assert_whole(found)
    return found


def guard(source, to):
    return {"op": "insert", "ref": "a", "class_type": "HeadroomOOMGuard", "out": 0,
            "inputs": {"max_attempts": 3}, "from": source, "through": "model", "to": to}


def offload(source, to, model):
    return {"op": "insert", "ref": "b", "class_type": "HeadroomOffloadModel", "from": source,
            "inputs": {"scope": "this model"}, "through": "after", "out": 1, "to": to,
            "links": {"model": model}}


def encode(place):
    return {"op": "replace", "node": place, "class_type": "HeadroomEncodeToCPU",
            "keep": {"clip": "clip", "text": "text"}, "inputs": {"cache": "disk"},
            "outputs": {"0": 0}}


GUARD = guard(["1", 0], [["30:13", "model"]])
OFFLOAD = offload(["30:12", 0], [["30:13", "positive"]], ["1", 1])
LATE = offload(["30:13", 0], [["31", "latent"]], ["30:12", 0])


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
    off = api_prompt(changed(lambda w, _: by_id(w)[30].update(mode=MUTED)), INFOS)
    assert "latent" not in off["31"]["inputs"]

    def bypassed(workflow, _):
        by_id(workflow)[30].update(mode=BYPASSED)
        by_id(workflow)[30]["outputs"][0]["type"] = "MODEL"

    assert api_prompt(changed(bypassed), INFOS)["31"]["inputs"]["latent"] == ["1", 0]


def test_a_subgraph_inside_of_itself_is_a_sentence():
    with pytest.raises(DevError, match="'Sampling' contains itself"):
        api_prompt(changed(lambda w, inner: inner["nodes"].append({"id": 14, "type": "sub"})),
                   INFOS)


@pytest.mark.parametrize("steps", [
    (GUARD,), (OFFLOAD,), (encode("30:12"),), (LATE,), (GUARD, OFFLOAD, encode("30:12"), LATE),
    ({"op": "set", "node": "30:12", "input": "text", "value": "a bird"},),
    (guard(["30:13", 0], []),),
], ids=str)
def test_the_prompt_of_a_file_that_was_edited_inside_is_the_edited_prompt(steps):
    assert_same_prompt(WORKFLOW, edited(*steps), steps)


@pytest.mark.parametrize("steps", [
    (guard(["1", 0], [["30:50:13", "model"]]),),
    (offload(["30:50:12", 0], [["30:50:13", "positive"]], ["1", 1]),),
    (offload(["30:50:13", 0], [["31", "latent"]], ["30:50:12", 0]), encode("30:50:12")),
], ids=["guard", "lead in", "lead out"])
def test_two_graphs_deep_it_is_the_same(steps):
    workflow = changed(deeper)
    assert_same_prompt(workflow, edited(*steps, workflow=workflow), steps)


def test_what_two_instances_share_is_changed_once_and_led_to_both():
    step = guard(["1", 0], [["30:13", "model"], ["40:13", "model"]])
    other = offload(["30:12", 0], [["30:13", "positive"]], ["1", 1])
    made = edited(step, other, encode("30:12"), encode("40:12"), workflow=changed(twice))
    (inner,) = made["definitions"]["subgraphs"]
    assert sorted(one["type"] for one in inner["nodes"]) == [
        "HeadroomEncodeToCPU", "HeadroomOOMGuard", "HeadroomOffloadModel", "Sample"]
    prompt = api_prompt(made, INFOS)
    for place, text in (("30", "a cat"), ("40", "a dog")):
        offloads, guards = (f"{place}:{by_kind(inner)[kind]}" for kind in (
            "HeadroomOffloadModel", "HeadroomOOMGuard"))
        assert prompt[f"{place}:13"]["inputs"]["model"] == [guards, 0]
        assert prompt[f"{place}:13"]["inputs"]["positive"] == [offloads, 1]
        assert prompt[offloads]["inputs"]["model"] == ["1", 1]
        assert prompt[f"{place}:12"]["inputs"]["text"] == text


def by_kind(graph):
    return {one["type"]: one["id"] for one in graph["nodes"]}


def test_nodes_inside_keep_their_places_and_new_ones_overlap_nothing():
    (inner,) = edited(GUARD, OFFLOAD)["definitions"]["subgraphs"]
    for one in SUBGRAPH["nodes"]:
        now = by_id(inner)[one["id"]]
        assert [now[key] for key in ("pos", "size", "type", "widgets_values")] == [
            one[key] for key in ("pos", "size", "type", "widgets_values")]
    boxes = [box(one) for one in inner["nodes"]]
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            assert (one[2] <= other[0] or other[2] <= one[0]
                    or one[3] <= other[1] or other[3] <= one[1])
