"""Phrases that tell their key and figures beside their English text."""

from headroom.base.said import heard, joined, lines, said, said_json


def test_a_phrase_is_its_english_text():
    phrase = said("freed", "2.0 MiB freed", freed_mib=2.0)
    assert phrase == "2.0 MiB freed" and f"{phrase}!" == "2.0 MiB freed!"


def test_a_phrase_tells_its_key_and_figures_also_inside_another():
    inner = said("freed", "2.0 MiB freed", freed_mib=2.00049)
    outer = said("tried", f"tried: {inner}", tried=inner, times=3)
    assert said_json(outer) == {"key": "tried", "values": {
        "tried": {"key": "freed", "values": {"freed_mib": 2.0}}, "times": 3}}


def test_joined_phrases_keep_what_each_says_and_one_alone_stays_itself():
    one, other = said("a", "first"), "plain"
    assert joined(" and ", [one]) is one
    both = joined(" and ", [one, other])
    assert both == "first and plain"
    assert said_json(both)["values"] == {
        "joint": "and", "parts": [{"key": "a", "values": {}}, {"text": "plain"}]}


def test_a_text_without_a_key_is_only_text():
    assert said_json("as it was") == {"text": "as it was"}


def test_lines_are_one_text_that_keeps_what_each_says():
    text = lines([said("a", "first"), "", "plain"], end="  ")
    assert text == "first  \n  \nplain"
    assert said_json(text) == {"key": "joined", "values": {"joint": "  \n", "parts": [
        {"key": "a", "values": {}}, {"text": ""}, {"text": "plain"}]}}


def test_a_phrase_that_went_through_json_is_heard_again():
    once = said("tried", "tried: 2.0 MiB", tried=said("freed", "2.0 MiB", freed_mib=2.0))
    again = heard("tried: 2.0 MiB", said_json(once))
    assert again == once and said_json(again) == said_json(once)
    assert said_json(heard("plain", said_json("plain"))) == {"text": "plain"}
