"""Blueprints lead from the names that other packs use to our nodes, and hide nothing of these."""

import json
from pathlib import Path

import pytest

from tools.ui_subgraph import INPUTS, OUTPUTS

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = json.loads((ROOT / "tests" / "contract.json").read_text(encoding="utf-8"))
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8"))
         for path in sorted((ROOT / "subgraphs").glob("*.json"))}
NODES = {"Unload Model (Offload Model)": "HeadroomOffloadModel",
         "Unload All Models (Purge VRAM)": "HeadroomPurgeVRAM"}


@pytest.fixture(params=NODES)
def blueprint(request):
    """The node on the canvas, its subgraph, the one node inside, and the contract of that."""
    file = FILES[request.param]
    (shown,), (subgraph,) = file["nodes"], file["definitions"]["subgraphs"]
    (inner,) = subgraph["nodes"]
    assert shown["type"] == subgraph["id"] and inner["type"] == NODES[request.param]
    assert CONTRACT[inner["type"]]["display_name"] in request.param
    return shown, subgraph, inner, CONTRACT[inner["type"]]


def kind(contract_type):
    return "*" if contract_type == "any" else contract_type


def ports(items):
    return [(item["name"], item["type"]) for item in items]


def test_there_is_one_for_each_name_and_no_other():
    assert set(FILES) == set(NODES)
    assert all(file["extra"]["BlueprintDescription"] for file in FILES.values())


def test_every_socket_of_the_node_is_one_of_the_blueprint(blueprint):
    shown, subgraph, inner, known = blueprint
    into = [(name, "*") for name, each in known["inputs"].items() if each["type"] == "any"]
    out = [(name, kind(each)) for name, each, _ in known["outputs"]]
    for holder in (shown, subgraph):
        assert ports(holder["inputs"]) == into and ports(holder["outputs"]) == out
    assert ports(inner["outputs"]) == out
    assert ports(inner["inputs"])[: len(into)] == into


def test_every_wire_inside_joins_the_sockets_of_one_name(blueprint):
    _, subgraph, inner, _ = blueprint
    for link in subgraph["links"]:
        at, to = link["origin_slot"], link["target_slot"]
        if link["origin_id"] == INPUTS:
            ends, own = (subgraph["inputs"][at], inner["inputs"][to]), inner["inputs"][to]["link"]
        else:
            assert link["target_id"] == OUTPUTS
            ends, own = (inner["outputs"][at], subgraph["outputs"][to]), link["id"]
            assert inner["outputs"][at]["links"] == [own]
        assert ends[0]["name"] == ends[1]["name"] and own == link["id"]
    assert len(subgraph["links"]) == len(subgraph["inputs"]) + len(subgraph["outputs"])


def test_every_value_is_shown_and_is_the_nodes_default(blueprint):
    shown, _, inner, known = blueprint
    values = {name: each for name, each in known["inputs"].items() if each["type"] != "any"}
    assert shown["properties"]["proxyWidgets"] == [[str(inner["id"]), name] for name in values]
    assert inner["widgets_values"] == [each["default"] for each in values.values()]
    assert [slot["name"] for slot in inner["inputs"] if "widget" in slot] == list(values)
