"""Every sentence of advice is there in Chinese, with the same values in it."""

import re
from pathlib import Path

import pytest

from headroom.advise.words import SENTENCES

SAID = Path(__file__).parents[2] / "js" / "lib" / "said_words.js"


@pytest.mark.parametrize("key", SENTENCES)
def test_a_sentence_is_there_in_chinese_with_the_same_values(key):
    (said,) = re.findall(rf'^  advice_{key}: "(.*)",$', SAID.read_text(encoding="utf-8"), re.M)
    assert re.search(r"[一-鿿]", said)
    assert set(re.findall(r"\{\w+\}", said)) == set(re.findall(r"\{\w+\}", SENTENCES[key]))
