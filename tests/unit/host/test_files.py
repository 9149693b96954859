"""Which files the name in a widget means."""

import pytest
from support.comfyui import on_comfyui


def test_a_models_folder_of_another_pack_that_is_no_path_hides_no_file_of_the_others(
    monkeypatch, tmp_path
):
    (tmp_path / "a.ckpt").write_bytes(b"")
    files = on_comfyui(monkeypatch, "files", folder_paths={
        "folder_names_and_paths": {"odd": ([None, ""], set()), "own": ([str(tmp_path)], set())},
        "exists_annotated_filepath": lambda name: False})
    assert files.files_named("a.ckpt") == [tmp_path / "a.ckpt"]
    assert files.files_named(str(tmp_path / "a.ckpt")) == [tmp_path / "a.ckpt"]


@pytest.mark.parametrize("start", ["//", "\\\\", "\\/"])
def test_a_path_on_another_machine_is_not_looked_at(monkeypatch, start):
    def looks(name):
        raise AssertionError(name)

    files = on_comfyui(monkeypatch, "files", folder_paths={
        "folder_names_and_paths": {}, "exists_annotated_filepath": looks})
    assert files.files_named(f"{start}host/share/a.ckpt") == []
