"""A model file is known by its size, its time and sampled blocks, never by a read of all of it."""

import os
import shutil
from pathlib import Path

import psutil
import pytest

from headroom.base import file_identity
from headroom.base.file_identity import READ_BYTES, code_of, commit_of, identities_of, identity_of

LONG_AGO = 1_000_000_000
GIB = 1 << 30


@pytest.fixture
def model(tmp_path):
    """A file of 3 MiB whose last change counts as long ago."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(os.urandom(3 * 2**20))
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def large(tmp_path):
    """A file of 40 MiB, of which a part is read."""
    path = tmp_path / "large.safetensors"
    path.write_bytes(bytes(40 * 2**20))
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def read(monkeypatch):
    """The files that were looked into, as long as the test runs; changes settle at once."""
    monkeypatch.setattr(file_identity, "SETTLE_NS", 0)
    found = []
    opened = Path.open

    def noted(path, *args, **kwargs):
        found.append(path.name)
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", noted)
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


def forget():
    """As a server that begins now."""
    file_identity._sampled_hash.cache_clear()


@pytest.mark.parametrize("at", [0, 1, 70_000, 1_234_567, 2_999_999, 3 * 2**20 - 1])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_edit_anywhere_is_seen_with_size_and_time_kept_and_after_a_restart(model, at, restarted):
    before = identity_of(model)
    flip(model, at)
    if restarted:
        forget()
    assert identity_of(model) != before


@pytest.mark.skipif(not hasattr(psutil.Process, "io_counters"), reason="needs a count of what is "
                    "read")
def test_a_file_of_10_gib_is_known_by_9_mib_of_it(tmp_path):
    path = tmp_path / "encoder.safetensors"
    with path.open("wb") as file:
        file.truncate(10 * GIB)
    before = psutil.Process().io_counters().read_chars
    identities_of([path])
    assert psutil.Process().io_counters().read_chars - before < 2 * READ_BYTES


@pytest.mark.parametrize("at", [0, 1_000_000, 40 * 2**20 - 1])
def test_a_large_file_is_known_by_its_head_and_its_end(large, at):
    before = identity_of(large)
    flip(large, at)
    assert identity_of(large) != before


def test_other_weights_are_seen_in_a_large_file_even_with_its_size_and_time_kept(large):
    before = identity_of(large)
    with large.open("r+b") as file:
        file.seek(20 * 2**20)
        file.write(b"\1" * 2**20)  # one tensor of it
    os.utime(large, ns=(LONG_AGO, LONG_AGO))
    assert identity_of(large) != before


def unread_byte(size):
    """The place of a byte of which nothing is read."""
    (_, head), *blocks = file_identity._places(size)
    start, nbytes = blocks[5]
    assert start + nbytes < blocks[6][0] and start > head
    return start + nbytes


def test_a_byte_between_the_blocks_is_seen_by_the_time_of_the_file_and_by_nothing_else(large):
    before = identities_of([large])
    flip(large, unread_byte(large.stat().st_size))
    assert identities_of([large]) == before  # what this way of knowing files costs
    os.utime(large, ns=(2 * LONG_AGO, 2 * LONG_AGO))
    assert identities_of([large]) != before


def test_a_file_is_read_once_while_it_does_not_change(model, read):
    assert len({str(identity_of(model)) for _ in range(3)}) == 1
    assert read == ["model.safetensors"]


def test_a_file_that_changed_a_moment_ago_is_read_again_because_clocks_are_coarse(
    model, read, monkeypatch
):
    monkeypatch.setattr(file_identity, "SETTLE_NS", 10**12)
    assert identity_of(model) == identity_of(model)
    assert len(read) == 2


def test_a_copy_elsewhere_and_at_another_time_is_the_same_content(tmp_path, model, large):
    for path in (model, large):
        copy = tmp_path / f"elsewhere of {path.name}"
        copy.write_bytes(path.read_bytes())
        assert identity_of(copy) == identity_of(path)


def test_a_copy_that_keeps_its_time_has_the_same_place_in_a_cache(tmp_path, model, large):
    (tmp_path / "other").mkdir()
    copies = [Path(shutil.copy2(path, tmp_path / "other")) for path in (model, large)]
    os.utime(copies[0])  # one that is read in full needs none
    assert identities_of(copies) == identities_of([large, model])


def test_a_file_that_changes_while_it_is_read_has_no_identity(model, monkeypatch):
    places = file_identity._places

    def changing(size):
        yield from places(size)
        flip(model, 5)

    monkeypatch.setattr(file_identity, "_places", changing)
    with pytest.raises(OSError, match="model.safetensors changed while it was read"):
        identity_of(model)


def test_files_of_every_size_differ_from_each_other(tmp_path):
    path = tmp_path / "a.pt"
    seen = set()
    sizes = (0, 1, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1, READ_BYTES + 70_000, 10 * READ_BYTES)
    for size in sizes:
        with path.open("wb") as file:
            file.truncate(size)
        seen.add(str(identity_of(path)["content"]))
    assert len(seen) == len(sizes)


@pytest.fixture
def package(tmp_path):
    for name in ("sd.py", "lora.py", "weight_adapter/lokr.py", "text_encoders/t5.py",
                 "__pycache__/sd.pyc"):
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "pack"


@pytest.mark.parametrize("name", ["sd.py", "lora.py", "weight_adapter/lokr.py",
                                  "text_encoders/t5.py"])
def test_a_change_in_any_file_of_a_package_changes_its_code(package, name):
    before = code_of(package)
    (package / name).write_text("changed")
    assert code_of(package).digest != before.digest


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


@pytest.mark.parametrize(("files", "commit"), [
    ({}, ""), ({"HEAD": "4be0\n"}, "4be0"), ({"HEAD": "ref: refs/heads/a\n"}, ""),
    ({"HEAD": "ref: refs/heads/a\n", "refs/heads/a": "12ab\n"}, "12ab"),
    ({"HEAD": "ref: refs/heads/a\n", "packed-refs": "# pack\n99 refs/heads/ba\n7c refs/heads/a\n"},
     "7c"),
], ids=["no checkout", "a commit", "a new branch", "a branch", "a packed branch"])
def test_the_commit_of_a_folder_is_what_git_has_checked_out_there(tmp_path, files, commit):
    for name, text in files.items():
        path = tmp_path / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert commit_of(tmp_path) == commit
