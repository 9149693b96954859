"""What the server says is there in Chinese, and with the figures that it sends."""

import ast
import re
from pathlib import Path

import pytest

from headroom.advise.words import SENTENCES

ROOT = Path(__file__).parents[3]
WORDS = sorted((ROOT / "js" / "lib").glob("said*_words.js"))
SPOKEN = "".join(path.read_text(encoding="utf-8") for path in WORDS)
CHINESE = dict(re.findall(r'^  (\w+): "(.*)",$', SPOKEN, re.M))


def sent():
    """Every (key, names of its values) that the source says outright."""
    for path in sorted((ROOT / "headroom").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") not in WRITERS:
                continue
            names = [keyword.arg for keyword in call.keywords]
            if None not in names and isinstance(call.args[0], ast.Constant):
                yield call.args[0].value, frozenset(names)


WRITERS = ("said", "_sentence")
SENT = sorted(set(sent()), key=str)


def placeholders(text):
    return set(re.findall(r"\{(\w+)\}", text))


def test_the_source_says_much():
    assert len(SENT) > 150


@pytest.mark.parametrize(("key", "values"), SENT)
def test_a_phrase_is_there_in_chinese_and_asks_for_no_value_that_is_not_sent(key, values):
    assert placeholders(CHINESE[key]) <= values


@pytest.mark.parametrize("key", SENTENCES)
def test_a_sentence_of_advice_is_there_in_chinese_with_the_same_values(key):
    said = CHINESE[f"advice_{key}"]
    assert re.search(r"[一-鿿]", said)
    assert placeholders(said) == placeholders(SENTENCES[key])
