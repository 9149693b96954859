"""A stale embedding is never read and never written: files change before, between and after."""

import sys
import types
from pathlib import Path

import pytest
import torch

from headroom.base.file_identity import state_of
from headroom.encode import cache_key
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache

VALUE = [[torch.ones(3), {"pooled_output": None}]]


@pytest.fixture
def seen(monkeypatch):
    """The states of files as a process saw them that begins now."""
    monkeypatch.setattr(cache_key, "_first_seen", {})
    return cache_key._first_seen


@pytest.fixture
def model(tmp_path, seen):
    """A model file of which an encoder was looked up."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    seen[path] = state_of(path)
    return path


@pytest.fixture
def look_up(tmp_path, model):
    """Look the encoder up, as every prompt does."""
    return lambda: EmbeddingLookup(EmbeddingCache(tmp_path / "c"), "encoder", files=(model,))


def is_kept(look_up, seen, prompt="a"):
    """Whether a process that begins now reads the prompt from the cache."""
    seen.clear()
    return look_up().has_all([prompt])


def test_a_kept_embedding_is_read_while_no_file_changes_and_for_no_other_encoder(look_up, seen):
    look_up().store("a", VALUE)
    assert look_up().has_all(["a"]) and is_kept(look_up, seen)
    assert not EmbeddingLookup(look_up().cache, "another encoder").has_all(["a"])


def test_neither_read_nor_written_after_a_file_of_the_encoder_changed(look_up, model, seen):
    look_up().store("a", VALUE)
    model.write_bytes(b"new")
    lookup = look_up()
    assert not lookup.has_all(["a"])
    lookup.store("b", VALUE)
    assert lookup.unwritten.startswith("model.safetensors changed while ComfyUI was running")
    assert not lookup.found and not is_kept(look_up, seen, "b")


@pytest.mark.parametrize("change", [
    lambda model: model.write_bytes(b"new"),
    lambda model: model.unlink(),
    lambda model: model.with_name("other").replace(model),
], ids=["written", "removed", "replaced"])
def test_nothing_is_kept_when_a_file_changes_between_the_question_and_the_answer(
    look_up, model, seen, change
):
    model.with_name("other").write_bytes(b"old")
    lookup = look_up()
    assert not lookup.has_all(["a"])
    change(model)
    lookup.store("a", VALUE)
    assert lookup.unwritten is not None
    model.write_bytes(b"old")
    assert not is_kept(look_up, seen)


def test_nothing_is_kept_when_a_textual_inversion_changes_while_it_is_encoded(
    look_up, seen, monkeypatch
):
    versions = iter([["v1"], ["v2"]])
    monkeypatch.setattr(cache_key, "embeddings_in", lambda prompt: next(versions, ["v2"]))
    lookup = look_up()
    assert not lookup.has_all(["a"])
    lookup.store("a", VALUE)
    assert lookup.unwritten == "a file that it names changed while it was encoded"
    assert not is_kept(look_up, seen)


def test_a_textual_inversion_that_cannot_be_read_costs_the_cache_and_not_the_prompt(
    look_up, monkeypatch
):
    def unreadable(_paths):
        raise PermissionError(13, "Permission denied")

    host_files = types.SimpleNamespace(embedding_files=lambda: [Path("mine.pt")])
    monkeypatch.setitem(sys.modules, "headroom.host.files", host_files)
    monkeypatch.setattr(cache_key, "identities_of", unreadable)
    lookup, prompt = look_up(), "a cat, embedding:mine"
    assert not lookup.has_all([prompt])
    lookup.store(prompt, VALUE)
    assert lookup.unwritten == "a file that it names cannot be read: Permission denied"
    assert not list(lookup.cache.folder.glob("*"))


def test_a_value_that_cannot_be_kept_does_not_stop_the_reading_of_others(look_up):
    look_up().store("a", VALUE)
    lookup = look_up()
    lookup.store("b", [object()])
    assert "which has no safe form" in lookup.unwritten and lookup.has_all(["a"])


@pytest.mark.parametrize(("file", "named"), [
    ("EasyNegative.pt", "easynegative"), ("bad_(v2).safetensors", r"bad_\(v2\)"),
    ("cafe\u0301.pt", "caf\u00e9")])
def test_a_textual_inversion_changes_the_key_however_its_name_is_written(
    look_up, monkeypatch, tmp_path, seen, file, named
):
    """Windows finds a name in other letters, macOS with its accents apart from them; ComfyUI takes
    the backslashes out of a prompt."""
    path, prompt = tmp_path / file, f"a cat, embedding:{named}"
    host_files = types.SimpleNamespace(embedding_files=lambda: [path] if path.exists() else [])
    monkeypatch.setitem(sys.modules, "headroom.host.files", host_files)
    look_up().store(prompt, VALUE)
    assert is_kept(look_up, seen, prompt)
    path.write_bytes(b"a style")
    assert not is_kept(look_up, seen, prompt)
