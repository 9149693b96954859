"""`dev.py run --set`: values changed on the way."""

import copy

import pytest
from support.saved import PROMPT

from tools import settings
from tools.errors import DevError


@pytest.mark.parametrize(
    ("text", "setting"),
    [("3.steps=20", ("3.steps", 20)), ("a.b=true", ("a.b", True)), ("a.b=x=y", ("a.b", "x=y")),
     ("My. node.name=out", ("My. node.name", "out")), ('a.b="20"', ("a.b", "20"))],
)
def test_a_setting_is_json_or_text(text, setting):
    assert settings.parse_setting(text) == setting


@pytest.mark.parametrize("text", ["steps=20", "3.steps", ""])
def test_a_malformed_setting_is_explained(text):
    with pytest.raises(DevError, match="NODE.INPUT=VALUE"):
        settings.parse_setting(text)


@pytest.mark.parametrize("key", ["4.steps", "Sample it.steps", "Sample.steps"])
def test_a_node_is_found_by_id_title_or_class_and_the_original_stays(key):
    prompt = copy.deepcopy(PROMPT)
    assert settings.with_settings(prompt, {key: 3})["4"]["inputs"]["steps"] == 3
    assert prompt["4"]["inputs"]["steps"] == 20


def test_a_setting_for_nothing_is_refused_with_what_there_is():
    with pytest.raises(DevError, match="4 Sample it"):
        settings.with_settings(PROMPT, {"KSampler.steps": 3})
    with pytest.raises(DevError, match="no input 'cfg'; it has seed, steps, mode, model, image"):
        settings.with_settings(PROMPT, {"4.cfg": 3})
