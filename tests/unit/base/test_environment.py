"""A wrong word in a setting is one warning in the log that says what is right."""

from pathlib import Path

import pytest

from headroom.base import environment
from headroom.base.environment import count_of, disk_limit_bytes, folder_of, ignore, word_of

NAME = "HEADROOM_TRIAL"


def warned(caplog):
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("value", [None, "", "  "])
def test_an_unset_variable_is_none_without_a_warning(caplog, value):
    given = {} if value is None else {NAME: value}
    assert word_of(given, NAME, ("off", "all")) is None
    assert count_of(given, NAME, "MiB") is None and folder_of(given, NAME) is None
    assert not warned(caplog)


def test_right_words_numbers_and_folders_are_taken(caplog):
    assert word_of({NAME: " ALL "}, NAME, ("off", "all")) == "all"
    assert count_of({NAME: " 512 "}, NAME, "MiB") == 512 and count_of({NAME: "0"}, NAME, "MiB") == 0
    assert count_of({NAME: " Off "}, NAME, "MiB") == 0
    assert folder_of({NAME: "/shared/embeddings"}, NAME) == Path("/shared/embeddings")
    assert folder_of({NAME: "~/x"}, NAME) == Path.home() / "x"
    assert not warned(caplog)


@pytest.mark.parametrize(("mib", "limit_mib"), [(None, 4096), ("lots", 4096), ("0", 0), ("2", 2)])
def test_a_limit_on_disk_is_set_in_mib(mib, limit_mib):
    given = {} if mib is None else {NAME: mib}
    assert disk_limit_bytes(given, NAME) == limit_mib << 20


@pytest.mark.parametrize(("read", "value", "right"), [
    (lambda given: word_of(given, NAME, ("off", "offer", "all")), "maybe", "off, offer or all"),
    (lambda given: count_of(given, NAME, "MiB"), "lots", "a whole number of MiB"),
    (lambda given: count_of(given, NAME, "MiB"), "-5", "a whole number of MiB"),
    (lambda given: count_of(given, NAME, "MiB"), "4.5", "a whole number of MiB"),
    (lambda given: count_of(given, NAME, "MiB"), "٣", "a whole number of MiB"),
    (lambda given: count_of(given, NAME, "MiB"), "9" * 5000, "a whole number of MiB"),
    (lambda given: folder_of(given, NAME), "embeddings", "the full path of a folder"),
])
def test_a_wrong_one_is_told_once_with_what_is_right_and_ignored(caplog, read, value, right):
    assert [read({NAME: value}) for _ in range(3)] == [None] * 3
    [sentence] = warned(caplog)
    assert f"expected {NAME} to be {right}, but got " in sentence and len(sentence) < 250


def test_endless_new_wrong_words_fill_neither_memory_nor_log(caplog):
    for number in range(10_000):
        ignore("extra_data.headroom.guard", number, "true or false")
    assert len(warned(caplog)) == len(environment._told) == environment.MOST_TOLD
