"""The checks of the JavaScript: what is installed for them, and when they are skipped."""

import json
import sys

import pytest

from tools import cache, javascript


@pytest.fixture
def stages(monkeypatch, tmp_path):
    """What is run, by name; a name put into `failing` fails."""
    monkeypatch.setenv(cache.HOME_VARIABLE, str(tmp_path))
    monkeypatch.setattr(javascript, "node_version", lambda _: 20)
    monkeypatch.setattr(javascript.shutil, "which", lambda name: f"/usr/bin/{name}")

    class Stages(list):
        failing: tuple[str, ...] = ()

        def __call__(self, name, command):
            self.append(name)
            self.last = [str(word) for word in command]
            return name not in self.failing

    return Stages()


def test_packages_are_installed_once_and_every_check_runs(stages):
    assert javascript.javascript(stages) == []
    assert javascript.javascript(stages) == []
    checks = ["tsc", "ESLint", "JavaScript tests"]
    assert stages == [javascript.INSTALLING, *checks, *checks]
    assert len([word for word in stages.last if word.endswith(".test.mjs")]) > 10


def test_a_check_that_fails_is_named_and_the_others_run_all_the_same(stages):
    stages.failing = ("tsc", "JavaScript tests")
    assert javascript.javascript(stages) == ["tsc", "JavaScript tests"]
    assert "ESLint" in stages


def test_where_nothing_could_be_installed_that_fails_and_is_tried_again_next_time(stages):
    stages.failing = (javascript.INSTALLING,)
    assert javascript.javascript(stages) == [javascript.INSTALLING]
    assert stages == [javascript.INSTALLING, "JavaScript tests"]
    stages.failing = ()
    assert javascript.javascript(stages) == []


@pytest.mark.parametrize("missing", ["node", "npm"])
def test_without_node_or_npm_what_needs_it_is_skipped_and_said(
    stages, monkeypatch, capsys, missing
):
    monkeypatch.setattr(javascript.shutil, "which",
                        lambda name: None if name == missing else f"/usr/bin/{name}")
    assert javascript.javascript(stages) == []
    assert stages == ([] if missing == "node" else ["JavaScript tests"])
    assert "skipped" in capsys.readouterr().out


def test_a_node_that_is_too_old_is_not_used(stages, monkeypatch, capsys):
    monkeypatch.setattr(javascript, "node_version", lambda _: javascript.OLDEST_NODE - 1)
    assert javascript.javascript(stages) == [] and stages == []
    assert f"Node.js {javascript.OLDEST_NODE}" in capsys.readouterr().out


def test_the_version_of_node_is_read_and_zero_when_there_is_none():
    assert javascript.node_version(sys.executable) == 0


def test_the_lock_file_names_no_registry_and_exact_versions():
    lock = json.loads((javascript.FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    assert not [name for name, each in lock["packages"].items() if "resolved" in each]
    assert all(each["integrity"] for name, each in lock["packages"].items() if name)
    wanted = json.loads((javascript.FOLDER / "package.json").read_text(encoding="utf-8"))
    assert lock["packages"][""]["devDependencies"] == wanted["devDependencies"]
    assert all(version[0].isdigit() for version in wanted["devDependencies"].values())


def test_no_file_of_these_is_shipped_with_the_pack():
    ignored = (javascript.ROOT / ".comfyignore").read_text(encoding="utf-8").splitlines()
    assert f"/{javascript.FOLDER.relative_to(javascript.ROOT).parts[0]}/" in ignored
