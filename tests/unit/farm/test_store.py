"""What a farm has accepted, in a file of its own: who may use it, and what it takes once."""

import pytest

from farm.store import Store
from farm.words import FarmError


def test_a_second_result_of_a_prompt_is_not_taken(tmp_path):
    store = Store(tmp_path)
    prompt = {"1": {"class_type": "A", "inputs": {}}}
    store.accept("a", 1.0, prompt, {"auth_token_comfy_org": "secret"})
    ended = [store.ends("a", server, "completed", {"by": server}) for server in ("first", "second")]
    assert ended == [True, False]
    assert (store.find("a").entry, store.find("a").extra) == ({"by": "first"}, {})
    assert list(store.open()) == []
    store.close()


def test_a_second_farm_on_the_same_results_is_told_so(tmp_path):
    first = Store(tmp_path)
    with pytest.raises(FarmError, match="Another farm"):
        Store(tmp_path)
    first.close()
    Store(tmp_path).close()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FarmError, match="cannot be used"):
        Store(tmp_path / "file")
