"""The identity of a model file: its whole content, read once and remembered."""

import json
import os

import pytest

from headroom.base import file_identity
from headroom.base.file_identity import ContentHashes, code_of

LONG_AGO = 1_000_000_000


@pytest.fixture
def model(tmp_path):
    """A file of 3 MiB whose last change counts as long ago."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(os.urandom(3 * 2**20))
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def read(monkeypatch):
    """The files that were read in full, as long as the test runs; changes settle at once."""
    monkeypatch.setattr(file_identity, "SETTLE_NS", 0)
    found = []
    whole = file_identity.content_hash

    def noted(path, size):
        found.append(path.name)
        return whole(path, size)

    monkeypatch.setattr(file_identity, "content_hash", noted)
    return found


def flip(path, at):
    """Change one byte in place and put size and modification time back."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=times)


@pytest.mark.parametrize("at", [0, 1, 70_000, 1_234_567, 2_999_999, 3 * 2**20 - 1])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_edit_anywhere_is_seen_with_size_and_time_kept_and_after_a_restart(
    tmp_path, model, at, restarted
):
    memory = tmp_path / "hashes.json"
    hashes = ContentHashes(memory)
    before = hashes.of(model)
    flip(model, at)
    assert (ContentHashes(memory) if restarted else hashes).of(model) != before


def test_a_file_is_read_once_and_remembered_beyond_a_restart(tmp_path, model, read):
    hashes = ContentHashes(tmp_path / "hashes.json")
    assert len({hashes.of(model) for _ in range(3)}) == 1
    assert ContentHashes(tmp_path / "hashes.json").of(model) == hashes.of(model)
    assert read == ["model.safetensors"]


def test_a_file_that_changed_a_moment_ago_is_read_again_because_clocks_are_coarse(
    tmp_path, model, read, monkeypatch
):
    monkeypatch.setattr(file_identity, "SETTLE_NS", 10**12)
    hashes = ContentHashes(tmp_path / "hashes.json")
    assert hashes.of(model) == hashes.of(model)
    assert len(read) == 2


def test_a_copy_elsewhere_and_at_another_time_is_the_same_content(tmp_path, model):
    copy = tmp_path / "elsewhere.safetensors"
    copy.write_bytes(model.read_bytes())
    hashes = ContentHashes()
    assert hashes.of(copy) == hashes.of(model)


def test_a_file_that_changes_while_it_is_read_has_no_identity(model, monkeypatch):
    whole = file_identity.content_hash

    def changing(path, size):
        found = whole(path, size)
        flip(path, 5)
        return found

    monkeypatch.setattr(file_identity, "content_hash", changing)
    with pytest.raises(OSError, match="model.safetensors changed while it was read"):
        ContentHashes().of(model)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[" * 100_000, b"[]", b'{"a": 1}', b"\xff", b'{"x": [1, 2, 3, 4]}', None,
])
def test_a_damaged_memory_is_an_empty_one(tmp_path, model, read, content):
    memory = tmp_path / "hashes.json"
    if content is None:
        memory.mkdir()
    else:
        memory.write_bytes(content)
    assert ContentHashes(memory).of(model) == ContentHashes().of(model)
    assert len(read) == 2


def test_what_is_remembered_is_bounded(tmp_path, read, monkeypatch):
    monkeypatch.setattr(file_identity, "MAX_REMEMBERED", 5)
    hashes = ContentHashes(tmp_path / "hashes.json")
    for index in range(12):
        path = tmp_path / f"{index}.pt"
        path.write_bytes(b"x")
        hashes.of(path)
    assert len(json.loads((tmp_path / "hashes.json").read_text())) == 5


def test_a_memory_that_cannot_be_written_is_no_error(tmp_path, model, read):
    (tmp_path / "file").write_bytes(b"")
    hashes = ContentHashes(tmp_path / "file" / "hashes.json")
    assert hashes.of(model) == hashes.of(model) and len(read) == 1


def test_the_hash_does_not_depend_on_how_the_file_is_cut_for_reading(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    monkeypatch.setattr(file_identity, "CHUNK_BYTES", 1000)
    seen = set()
    for size in (0, 1, 999, 1000, 1001, 5000):
        path.write_bytes(bytes(size))
        seen.add(ContentHashes().of(path))
    assert len(seen) == 6


SUFFIXES = (".py", ".json")


@pytest.fixture
def package(tmp_path):
    for name in ("sd.py", "lora.py", "weight_adapter/lokr.py", "text_encoders/t5.py",
                 "text_encoders/t5_tokenizer/tokenizer.json", "__pycache__/sd.pyc"):
        path = tmp_path / "comfy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "comfy"


@pytest.mark.parametrize("name", ["sd.py", "lora.py", "weight_adapter/lokr.py",
                                  "text_encoders/t5.py",
                                  "text_encoders/t5_tokenizer/tokenizer.json"])
def test_a_change_in_any_file_of_a_package_changes_its_code(package, name):
    before = code_of(package, SUFFIXES)
    (package / name).write_text("changed")
    assert code_of(package, SUFFIXES).digest != before.digest


def test_files_that_change_places_change_the_code_and_compiled_ones_do_not(package):
    before = code_of(package).digest
    (package / "__pycache__" / "sd.pyc").write_text("compiled anew")
    assert code_of(package).digest == before
    sd, lora = (package / "sd.py").read_text(), (package / "lora.py").read_text()
    (package / "sd.py").write_text(lora)
    (package / "lora.py").write_text(sd)
    assert code_of(package).digest != before


def test_code_that_changed_since_the_process_began_is_told(package):
    newest = max(path.stat().st_ctime_ns for path in package.rglob("*"))
    assert not code_of(package, start_ns=newest).is_new
    (package / "weight_adapter" / "lokr.py").write_text("changed")
    assert code_of(package, start_ns=newest).is_new
    assert code_of(package / "sd.py", start_ns=0).is_new
