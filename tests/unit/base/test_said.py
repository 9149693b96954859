"""Phrases that tell their template and values beside their English text."""

from headroom.base.said import joined, said, said_json


def test_a_phrase_is_its_template_filled_with_amounts_as_they_are_written():
    phrase = said("{freed_mib} freed by {count}", freed_mib=2048, count=2)
    assert phrase == "2,048.0 MiB freed by 2" and f"{phrase}!" == "2,048.0 MiB freed by 2!"


def test_a_phrase_tells_its_template_and_values_also_inside_another():
    inner = said("{freed_mib} freed", freed_mib=2.00049)
    outer = said("tried: {tried}", tried=inner, times=3)
    assert outer == "tried: 2.0 MiB freed"
    assert said_json(outer) == {"template": "tried: {tried}", "values": {
        "tried": {"template": "{freed_mib} freed", "values": {"freed_mib": 2.0}}, "times": 3}}


def test_values_with_braces_are_not_filled_again():
    assert said("{name} ran", name="{x}") == "{x} ran"


def test_joined_phrases_keep_what_each_says_and_one_alone_stays_itself():
    one, other = said("first"), "plain"
    assert joined(" and ", [one]) is one
    both = joined(" and ", [one, other])
    assert both == "first and plain"
    assert said_json(both) == {"template": " and ", "values": [
        {"template": "first", "values": {}}, "plain"]}


def test_a_text_without_a_template_is_only_text():
    assert said_json("as it was") == "as it was"
