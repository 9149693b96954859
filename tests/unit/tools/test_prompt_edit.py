"""An edit of an API prompt puts its nodes in, leaves everything else alone, and says what fails."""

import copy
import re

import pytest

from tools.prompt_edit import apply_edit

PROMPT = {
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["4", 1], "text": "a cat"},
          "_meta": {"title": "My prompt"}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["4", 1], "text": ["30:12", 0]}},
    "30:12": {"class_type": "PrimitiveString", "inputs": {"value": "blurry"}},
    "3": {"class_type": "KSampler", "inputs": {"model": ["4", 0], "positive": ["6", 0],
                                               "negative": ["7", 0], "steps": 20}},
}
GUARD = {"op": "insert", "ref": "a", "class_type": "HeadroomOOMGuard",
         "inputs": {"max_attempts": 8},
         "from": ["4", 0], "through": "model", "out": 0, "to": [["3", "model"]]}
ENCODE = {"op": "replace", "node": "6", "class_type": "HeadroomEncodeToCPU",
          "keep": {"clip": "clip", "text": "text"}, "inputs": {"cache": "off"}, "outputs": {"0": 0}}


def edited(*steps, prompt=PROMPT):
    before = copy.deepcopy(prompt)
    found = apply_edit(prompt, {"steps": list(steps)})
    assert prompt == before  # the prompt that comes in is not changed
    return found


def test_a_new_node_stands_between_an_output_and_the_input_that_it_fed():
    found = edited(GUARD)
    assert found["31"] == {"class_type": "HeadroomOOMGuard",
                           "inputs": {"max_attempts": 8, "model": ["4", 0]}}
    assert found["3"]["inputs"] == {**PROMPT["3"]["inputs"], "model": ["31", 0]}
    assert {key: found[key] for key in PROMPT if key != "3"} == {
        key: node for key, node in PROMPT.items() if key != "3"}


def test_further_inputs_of_the_new_node_are_wired_too():
    step = {**GUARD, "class_type": "HeadroomOffloadModel", "from": ["6", 0], "through": "after",
            "out": 1, "to": [["3", "positive"]], "links": {"model": ["4", 1]}}
    found = edited(step)
    assert found["31"]["inputs"] == {"max_attempts": 8, "after": ["6", 0], "model": ["4", 1]}
    assert found["3"]["inputs"]["positive"] == ["31", 1]


def test_a_second_node_on_the_same_wire_goes_behind_the_first():
    cast = {**GUARD, "class_type": "HeadroomCastBF16", "inputs": {}}
    found = edited(GUARD, prompt=edited(cast))
    assert found["31"]["inputs"]["model"] == ["4", 0]
    assert found["32"]["inputs"]["model"] == ["31", 0]
    assert found["3"]["inputs"]["model"] == ["32", 0]


def test_a_later_step_may_name_the_node_of_an_earlier_one():
    link = {**GUARD, "ref": "b", "from": ["6", 0], "through": "after", "out": 1,
            "to": [["3", "positive"]], "links": {"model": ["ref:a", 0]}}
    assert edited(GUARD, link)["32"]["inputs"]["model"] == ["31", 0]


def test_a_node_without_takers_hangs_on_the_output():
    assert edited({**GUARD, "to": []})["31"]["inputs"]["model"] == ["4", 0]


def test_another_class_in_a_nodes_place_keeps_its_id_title_values_and_wires():
    found = edited(ENCODE)
    assert found["6"] == {
        "class_type": "HeadroomEncodeToCPU", "_meta": {"title": "My prompt"},
        "inputs": {"cache": "off", "clip": ["4", 1], "text": "a cat"},
    }
    assert found["3"] == PROMPT["3"]
    linked = edited({**ENCODE, "node": "7"})
    assert linked["7"]["inputs"]["text"] == ["30:12", 0]


def test_outputs_that_moved_are_rewired():
    found = edited({**ENCODE, "outputs": {"0": 2}})
    assert found["3"]["inputs"]["positive"] == ["6", 2]


def test_a_value_is_set_and_nothing_else():
    found = edited({"op": "set", "node": "3", "input": "steps", "value": 4})
    sampler = {**PROMPT["3"], "inputs": {**PROMPT["3"]["inputs"], "steps": 4}}
    assert found == {**PROMPT, "3": sampler}


def test_the_same_edit_of_the_same_prompt_is_the_same():
    assert edited(GUARD, ENCODE) == edited(GUARD, ENCODE)


def test_parts_of_a_prompt_that_comfyui_ignores_stay_as_they_are():
    odd = {"x": None, "y": {"class_type": "Foo"}, "z": {"class_type": "Foo", "inputs": 3}}
    found = edited(GUARD, ENCODE, prompt={**PROMPT, **odd})
    assert {key: found[key] for key in odd} == odd


@pytest.mark.parametrize("step, words", [
    ({**GUARD, "to": [["99", "model"]]}, "'99'"),
    ({**GUARD, "from": ["99", 0], "to": []}, "'99'"),
    ({**GUARD, "links": {"x": ["ref:b", 0]}}, "'ref:b'"),
    ({**ENCODE, "outputs": {}}, "Output 0 of node 6 feeds `positive` of node 3"),
    ({"op": "melt"}, "'melt'"),
])
def test_an_edit_for_another_prompt_is_refused_in_a_sentence(step, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        edited(step)
