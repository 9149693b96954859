"""`pip install` of tools/ gives `fit` and `compare` to somebody who has no clone."""

import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

import fakecuda

pytestmark = [
    pytest.mark.host, pytest.mark.fakecuda,
    pytest.mark.skipif(bool(fakecuda.why_not()), reason=fakecuda.why_not() or ""),
]

ROOT = Path(__file__).resolve().parents[2]
FILES = ("__init__.py", "dev.py", "requirements.txt")
FOLDERS = ("headroom", "nodes", "lab", "tools")
PICTURE = {
    "1": {"class_type": "EmptyImage",
          "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "p"}},
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """The folder of the commands in an environment of their own, beside ComfyUI's packages."""
    base = tmp_path_factory.mktemp("package")
    for name in FOLDERS:  # a build leaves files beside its sources
        shutil.copytree(ROOT / name, base / "repository" / name)
    for name in FILES:
        shutil.copy(ROOT / name, base / "repository" / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", base,
                    base / "repository" / "tools"], check=True)
    shutil.rmtree(base / "repository")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base / "env"], check=True)
    python = base / "env" / "bin" / "python"
    (wheel,) = base.glob("*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel],
                   check=True)
    (packages,) = (base / "env" / "lib").glob("*/site-packages")
    (packages / "comfyui_has.pth").write_text("\n".join(site.getsitepackages()))
    return python.parent


def ran(commands, folder, *words):
    env = {name: value for name, value in os.environ.items()
           if name not in ("PYTHONPATH", "COMFYUI_PATH")}
    return subprocess.run([commands / words[0], *words[1:]], cwd=folder, env=env, text=True,
                          capture_output=True)


@pytest.mark.parametrize("command", ["headroom-fit", "headroom-compare"])
def test_each_command_is_there_under_its_own_name(commands, tmp_path, command):
    done = ran(commands, tmp_path, command, "--help")
    assert done.returncode == 0 and f"usage: {command} " in done.stdout
    assert "dev.py" not in done.stdout


def test_both_work_outside_of_a_clone_with_the_users_comfyui(commands, tmp_path, comfyui):
    (tmp_path / "w.json").write_text(json.dumps(PICTURE))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").touch()  # of a project that the user is in
    missing = ran(commands, tmp_path, "headroom-fit", "w.json")
    assert missing.returncode == 1 and "Expected --comfyui FOLDER" in missing.stderr
    done = ran(commands, tmp_path, "headroom-compare", "w.json", "--a", str(comfyui),
               "--b", str(comfyui), "--cards", "8", "--json")  # which runs `fit` once
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout).values()
    assert [trial["verdict"]["word"] for trial in answer["trials"]] == ["resident"]
