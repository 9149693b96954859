"""What a prompt's nodes are called, whatever their senders wrote."""

import pytest

from headroom.base.prompt_graph import MAX_TITLE, title_given


@pytest.mark.parametrize("node, title", [
    ({"_meta": {"title": "Mine"}}, "Mine"),
    ({"_meta": {"title": "long " * 100_000}}, ("long " * 100_000)[:MAX_TITLE]),
    *(({"_meta": meta}, "") for meta in (
        None, "text", 5, ["title"], True, {}, {"title": None}, {"title": ["a"]}, {"title": 5})),
    ({}, ""),
])
def test_a_title_is_text_of_some_length_or_there_is_none(node, title):
    assert title_given(node) == title
