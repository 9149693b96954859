"""Node ids, inputs and outputs are frozen: workflows of users stand on them."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.host
CONTRACT = json.loads((Path(__file__).parents[1] / "contract.json").read_text(encoding="utf-8"))
ANY = {"*", "COMFY_MATCHTYPE_V3"}


@pytest.fixture(scope="module")
def object_info(cpu_server):
    return cpu_server.client().get_json("/object_info")


def kind_of(declared):
    kind = "COMBO" if isinstance(declared, list) else declared
    return "any" if kind in ANY else kind


def options_of(entry):
    return entry[0] if isinstance(entry[0], list) else entry[1].get("options")


def test_exactly_the_nodes_of_the_contract_are_registered(object_info):
    ours = {name for name in object_info if name.startswith("Headroom")}
    assert ours == set(CONTRACT)


@pytest.mark.parametrize("node_id", CONTRACT)
def test_inputs_and_outputs_are_those_of_the_contract(object_info, node_id):
    node, frozen = object_info[node_id], CONTRACT[node_id]
    assert node["display_name"] == frozen["display_name"]
    assert node["category"] == "Headroom"
    assert node["output_node"] == frozen["output_node"]
    required, optional = node["input"].get("required", {}), node["input"].get("optional", {})
    assert set(required) | set(optional) == set(frozen["inputs"])
    for name, wanted in frozen["inputs"].items():
        assert (name in optional) == wanted.get("optional", False), name
        entry = (optional if name in optional else required)[name]
        assert kind_of(entry[0]) == wanted["type"], name
        if wanted["type"] == "COMBO":
            assert options_of(entry) == wanted["options"], name
        for key in ("default", "lazy", "multiline"):
            if key in wanted:
                assert entry[1].get(key) == wanted[key], (name, key)
    outputs = [
        [name, kind_of(kind), is_list]
        for name, kind, is_list in zip(
            node["output_name"], node["output"], node["output_is_list"], strict=True
        )
    ]
    assert outputs == frozen["outputs"]


@pytest.mark.parametrize("node_id", CONTRACT)
def test_every_input_and_output_explains_itself(object_info, node_id):
    node = object_info[node_id]
    assert node["description"]
    for inputs in (node["input"].get("required", {}), node["input"].get("optional", {})):
        for name, entry in inputs.items():
            assert entry[1].get("tooltip"), name
    assert all(node["output_tooltips"])
