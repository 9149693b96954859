"""The package stands alone: without ComfyUI it imports, and imports little."""

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def imported():
    """The modules in a process that has imported the package, and then what a server starts."""
    code = ("import headroom, json, sys; first = [*sys.modules]; import headroom.start; "
            "from headroom.api import metrics, routes; "
            "print(json.dumps([first, [*sys.modules]]))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_package_imports_without_comfyui_and_does_not_import_it(imported):
    assert "headroom.host.core" not in imported[0]


def test_nothing_heavy_comes_with_it(imported):
    assert {"matplotlib", "transformers", "diffusers", "aiohttp", "PIL"}.isdisjoint(imported[0])


def test_the_library_of_the_metrics_is_imported_by_the_first_request_and_not_before(imported):
    assert "headroom.api.metrics" in imported[1] and "prometheus_client" not in imported[1]


def packages_in(lines):
    """{a package: the requirement without spaces and with one kind of quotes}."""
    wanted = [line.split("#")[0].strip().replace('"', "'").replace(" ", "") for line in lines]
    return {re.split(r"[><=;!~]", line)[0]: line for line in wanted if line}


def test_the_registry_and_the_manager_install_the_same_and_never_torch():
    tomllib = pytest.importorskip("tomllib", reason="a module of Python 3.11 and newer")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = packages_in((ROOT / "requirements.txt").read_text("utf-8").splitlines())
    assert packages_in(project["dependencies"]) == listed
    assert not {"torch", "prometheus-client"} & set(listed)
    assert "dynamic" not in project


def test_the_registry_ships_every_folder_of_the_pack_whole_and_nothing_for_developers(tmp_path):
    git = ["git", f"--git-dir={tmp_path / 'none'}", f"--work-tree={ROOT}"]
    subprocess.run([*git, "init", "-q"], check=True)
    listing = [*git, "ls-files", "-z", "--others", "--ignored", "--exclude-from=.comfyignore"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    left_out = {name.split("/")[0] for name in done.stdout.split("\0") if name}
    assert {"tests", "tools", "docs", "dev.py"} <= left_out
    pack = {"headroom", "js", "locales", "nodes", "subgraphs", "workflows", "__init__.py",
            "pyproject.toml", "requirements.txt", "README.md", "LICENSE", "CHANGELOG.md"}
    assert left_out & pack == set()


def test_every_picture_that_the_registry_and_the_first_pages_show_is_in_the_repository():
    raw = "https://raw.githubusercontent.com/headroom-nodes/headroom/main/"
    texts = {name: (ROOT / name).read_text("utf-8")
             for name in ("pyproject.toml", "README.md", "README.zh-CN.md")}
    linked = {path for text in texts.values() for path in re.findall(re.escape(raw) + r"([\w./-]+)",
                                                                     text)}
    assert {"docs/icon.png", "docs/banner.png"} <= linked
    assert [path for path in sorted(linked) if not (ROOT / path).is_file()] == []
    for name in ("README.md", "README.zh-CN.md"):  # docs/ is not in what the registry ships
        pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", texts[name])
        assert [link for link in pictures if not link.startswith("https://")] == []


def test_pip_installs_the_memory_package_and_nothing_else_of_the_folder(tmp_path):
    pytest.importorskip("setuptools", reason="the wheel is built with this environment's own")
    source = tmp_path / "pack"
    keep = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("headroom", "nodes"):
        shutil.copytree(ROOT / name, source / name, ignore=keep)
    for name in ("pyproject.toml", "requirements.txt", "README.md", "LICENSE", "__init__.py"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
               "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("headroom_nodes-*.whl"))
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"headroom"}
    assert "headroom/guard/recover.py" in zipfile.ZipFile(wheel).namelist()


def test_the_first_page_can_be_read_in_minutes():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


# They start the tests and the checks.
STARTERS = {"tools/test.py", "tools/javascript.py"}


def test_commands_benchmarks_farm_and_lab_neither_import_nor_read_the_tests():
    files = [ROOT / "dev.py", *(path for folder in ("tools", "benchmarks", "farm", "lab")
                                for path in (ROOT / folder).rglob("*.py"))]
    assert len(files) > 150
    found = {(path.relative_to(ROOT).as_posix(), word)
             for path in files for word in _named(ast.parse(path.read_text("utf-8")))
             if {"tests", "support", "conftest"} & set(re.split(r"[/\\.]", word))}
    assert {name for name, _ in found} == STARTERS


def _named(tree):
    """What a module imports, and its texts of one word, as paths are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if " " not in node.value:
                yield node.value
