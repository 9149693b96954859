"""Which files the name in a widget means."""

import importlib
import sys
from types import ModuleType

import headroom.host


def test_a_models_folder_of_another_pack_that_is_no_path_hides_no_file_of_the_others(
    monkeypatch, tmp_path
):
    (tmp_path / "a.ckpt").write_bytes(b"")
    folders = ModuleType("folder_paths")
    folders.folder_names_and_paths = {"odd": ([None, ""], set()), "own": ([str(tmp_path)], set())}
    folders.exists_annotated_filepath = lambda name: False
    monkeypatch.setitem(sys.modules, "folder_paths", folders)
    monkeypatch.delitem(sys.modules, "headroom.host.files", raising=False)
    files = importlib.import_module("headroom.host.files")
    assert files.files_named("a.ckpt") == [tmp_path / "a.ckpt"]
    del sys.modules["headroom.host.files"]
    del headroom.host.files
