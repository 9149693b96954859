"""Titles and wires of a prompt's nodes, whatever the client sent."""

import pytest

from headroom.base.graph import Graph
from headroom.base.prompt_node import MAX_TITLE, title_given


@pytest.mark.parametrize("node, title", [
    ({"_meta": {"title": "Mine"}}, "Mine"),
    ({"_meta": {"title": "long " * 100_000}}, ("long " * 100_000)[:MAX_TITLE]),
    *(({"_meta": meta}, "") for meta in (
        None, "text", 5, ["title"], True, {}, {"title": None}, {"title": ["a"]}, {"title": 5})),
    ({}, ""),
    ({"_meta": {"title": "a\n[INFO] done\x1b[2J \N{ZERO WIDTH JOINER}b\ud800"}},
     "a [INFO] done [2J \N{ZERO WIDTH JOINER}b "),
])
def test_a_title_is_one_line_of_some_length_or_there_is_none(node, title):
    assert title_given(node) == title


@pytest.mark.parametrize("output", [float("nan"), float("inf"), float("-inf"), 10**400])
def test_an_output_with_no_possible_number_is_no_wire(output):
    inputs = {"x": ["1", output]}  # JSON may have all of them
    nodes = {"1": {"class_type": "A", "inputs": {}}, "2": {"class_type": "B", "inputs": inputs}}
    graph = Graph(nodes)
    assert graph.wires("2") == []
