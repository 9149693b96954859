"""A phrase tells its template and values; it is written once, and each language has all of them."""

import ast
import json
import re
from pathlib import Path

import pytest

from headroom.base.said import joined, said, said_json

ROOT = Path(__file__).parents[3]
LANGUAGES = {path.parent.name: words["Headroom"] for path in ROOT.glob("locales/*/main.json")
             if "Headroom" in (words := json.loads(path.read_text("utf-8")))}
TABLE = json.loads((ROOT / "headroom/base/errors.json").read_text("utf-8"))
EXPLAINED = {row[what] for row in TABLE["errors"] for what in ("what", "why")} | {
    one["text"] for one in TABLE["do"].values()}
NO_SOURCES = ("said.py", "error_table.py")  # this one says what is in the table
IN_JS = re.compile(r'\b(?:t|phrase|words\(\))\(\s*("(?:[^"\\]|\\.)*")')


def tables(module):
    """The tables of texts that a module has at its top, by name."""
    return {node.targets[0].id: [text.value for text in node.value.values]
            for node in module.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
            and all(isinstance(text, ast.Constant) for text in node.value.values)}


def choices(given, known):
    """The templates that an argument can be: a text, one of two, or one of a table."""
    match given:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=one, orelse=other):
            return choices(one, known) + choices(other, known)
        case ast.Subscript(value=ast.Name(id=name)) if name in known:
            return known[name]
    raise AssertionError(f"line {given.lineno}: no template is written here: {ast.unparse(given)}")


def told(source):
    """(template, the names of its values) of every call of `said` and `joined` in a source."""
    module = ast.parse(source)
    known = tables(module)
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("said", "joined"):
            names = {keyword.arg for keyword in call.keywords}
            for template in choices(call.args[0], known):
                yield template, None if None in names else names


def sources(folder, pattern):
    paths = sorted((ROOT / folder).rglob(pattern))
    return [path.read_text("utf-8") for path in paths if path.name not in NO_SOURCES]


PYTHON = [found for source in sources("headroom", "*.py") for found in told(source)]
SCRIPTS = sources("js", "*.js")
IN_SCRIPTS = {json.loads(text) for source in SCRIPTS for text in IN_JS.findall(source)}
TEMPLATES = {template for template, _ in PYTHON} | IN_SCRIPTS | EXPLAINED


def placeholders(text):
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("words", LANGUAGES.values(), ids=LANGUAGES)
def test_every_phrase_is_there_in_each_language_with_the_same_values(words):
    assert len(PYTHON) > 180 and len(IN_SCRIPTS) > 100
    assert not TEMPLATES - set(words)
    assert not [text for text, translated in words.items()
                if placeholders(text) != placeholders(translated)]


@pytest.mark.parametrize("words", LANGUAGES.values(), ids=LANGUAGES)
def test_no_translation_is_left_without_a_phrase(words):
    assert not set(words) - TEMPLATES


def test_a_phrase_of_the_server_gets_every_value_that_it_names():
    assert not [template for template, names in PYTHON
                if names is not None and not placeholders(template) <= names]


def test_a_phrase_of_the_page_is_written_as_a_text_that_can_be_found():
    assert not [call for source in SCRIPTS for call in re.findall(r"\bt\([`'].*", source)]


@pytest.mark.parametrize("source", ['said(f"{x} freed")', "said(text)", 'said("a" + "b")'])
def test_a_phrase_that_cannot_be_read_from_the_source_is_refused(source):
    with pytest.raises(AssertionError, match="no template is written here"):
        list(told(source))


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
    assert said_json("as it was") == "as it was"  # a text without a template
