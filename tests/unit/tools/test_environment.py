"""The development environment is keyed by its pins, and its failures are one sentence each."""

import argparse
import re
import sys
from pathlib import Path

import pytest

from tools import cache, commands, environment, pythons, uv
from tools import test as run_tests
from tools.errors import DevError, explain_failure

BASE = (["torch==2.11.0"], (3, 11), "linux-x86_64")


@pytest.mark.parametrize("other", [
    (["torch==2.12.0"], (3, 11), "linux-x86_64"),
    (["torch==2.11.0"], (3, 12), "linux-x86_64"),
    (["torch==2.11.0"], (3, 11), "darwin-arm64"),
    (["torch==", "2.11.0"], (3, 11), "linux-x86_64"),
])
def test_other_pins_pythons_and_systems_get_another_environment(other):
    assert environment.environment_key(*BASE) == environment.environment_key(*BASE)
    assert environment.environment_key(*BASE) != environment.environment_key(*other)


def test_a_comment_in_the_pins_changes_nothing():
    assert environment._without_comments("# why\na==1  # so\n\nb==2\n") == "a==1\nb==2"


@pytest.mark.parametrize(("platform", "env", "expected"), [
    ("linux", {}, "/home/u/.cache/headroom"),
    ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/headroom"),
    ("darwin", {}, "/home/u/Library/Caches/headroom"),
    ("win32", {"LOCALAPPDATA": "/local"}, "/local/headroom"),
    ("win32", {}, "/home/u/AppData/Local/headroom"),
    ("linux", {cache.HOME_VARIABLE: "/dev/home", "XDG_CACHE_HOME": "/x"}, "/dev/home"),
])
def test_the_cache_is_where_the_system_wants_it(platform, env, expected):
    assert cache.cache_home(env, platform, Path("/home/u")) == Path(expected)


def pins():
    text = environment._without_comments(environment.CONSTRAINTS.read_text())
    return [re.split(r"==|; ", line) for line in text.splitlines()]


def test_a_cache_that_cannot_be_made_is_told_with_what_to_set(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DevError, match="set HEADROOM_DEV_HOME to a folder that can be written"):
        with cache.process_lock(tmp_path / "file" / "locks" / "a.lock"):
            pass


def test_a_python_that_cannot_be_started_is_refused_by_name(tmp_path):
    (tmp_path / "python").touch()
    for given in (tmp_path / "python", tmp_path, tmp_path / "gone"):
        with pytest.raises(DevError, match=f"--python {given} is no program; give the Python"):
            environment.python_for(str(given))


def test_every_pin_is_one_exact_version_and_two_pins_never_meet():
    seen = {}
    for name, version, *marker in pins():
        assert re.fullmatch(r"[0-9][\w.+]*", version), name
        seen.setdefault(name, []).extend(marker or ["always"])
    halves = ['python_version < "3.11"', 'python_version >= "3.11"']
    for name, markers in seen.items():
        assert markers == ["always"] or sorted(markers) == halves or len(markers) == 1, name


def test_every_requirement_of_development_and_of_the_pack_is_pinned():
    known = {name.lower() for name, *_ in pins()}
    for path in (environment.REQUIREMENTS, environment.PACK_REQUIREMENTS):
        for line in environment._without_comments(path.read_text()).splitlines():
            assert re.match(r"[\w-]+", line).group().lower() in known, line


@pytest.mark.parametrize(("output", "words"), [
    ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk is full"),
    ("NewConnectionError: Failed to establish a new connection", "network is away"),
    ("Temporary failure in name resolution\nNo matching distribution found for x", "network"),
    ("ERROR: No matching distribution found for torch==2.11.0", "no torch==2.11.0 for this"),
    ("Because there is no version of torch==9 and you require it", "no torch==9 for this"),
    ("Because torch==2.11.0 has no wheels with a matching Python ABI tag", "no torch==2.11.0"),
    ("error sending request for url (https://x)", "network is away"),
    ("The virtual environment was not created: ensurepip is not available", "python3-venv"),
    ("something else", "failed."),
])
def test_a_failed_installation_is_explained_in_one_sentence(output, words):
    sentence = explain_failure(output, "installation of PyTorch")
    assert words in sentence and "installation of PyTorch" in sentence
    assert "\n" not in sentence and sentence.count(". ") == 0


def test_a_failing_command_names_its_log_and_the_log_has_its_words(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.HOME_VARIABLE, str(tmp_path))
    words = [environment.sys.executable, "-c", "import sys; sys.exit('Read timed out')"]
    with pytest.raises(DevError, match="network is away") as caught:
        commands.run_logged(words, "download of ComfyUI")
    assert str(commands.setup_log()) in str(caught.value)
    assert "Read timed out" in commands.setup_log().read_text()


def test_too_little_disk_is_said_before_anything_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setitem(environment.NEEDED_GIB, environment.sys.platform, 10**9)
    with pytest.raises(DevError, match="GiB free; free some space or set HEADROOM_DEV_HOME"):
        environment._check_space(tmp_path / "env")


def test_a_tree_that_runs_with_other_packages_than_its_own_is_said(tmp_path, capsys):
    (tmp_path / "requirements.txt").write_text("pytest==0.0.1\ntorch\nno-such-package-anywhere\n")
    environment.warn_of_other_packages(Path(sys.executable), tmp_path)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert f"runs here with pytest {pytest.__version__} (not 0.0.1)." in said[0]
    assert "also asks for no-such-package-anywhere" in said[1]


def test_uv_looks_for_packages_where_pip_is_told_to():
    assert uv.settings([
        "global.index-url='https://mirror.example/simple'", ":env:.cert='/c.crt'", "x.timeout='9'",
        "global.extra-index-url='https://a.example/simple\\nhttps://b.example'",
        "site.find-links='/w /v'",
    ]) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple", "SSL_CERT_FILE": "/c.crt",
        "UV_INDEX": "https://a.example/simple https://b.example", "UV_FIND_LINKS": "/w,/v",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_a_python_is_found_by_its_version_or_its_path_and_one_that_does_not_run_is_none(
    tmp_path, monkeypatch
):
    here = "{}.{}".format(*sys.version_info)
    assert pythons.version_of(pythons.find_python(here)) == here
    assert pythons.given_python(sys.executable) == Path(sys.executable)
    broken = tmp_path / "versions" / "3.99.0" / "bin" / "python3.99"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(DevError, match="There is no Python 3.99 on the PATH or among pyenv's"):
        pythons.given_python("3.99")
    broken.write_text("#!/bin/sh\necho 3.99\n")
    assert pythons.given_python("3.99") == broken


@pytest.mark.parametrize(("words", "codes", "runs"), [
    ([], [0], [(None, ())]),
    (["-k", "x"], [1], [(None, ("-k", "x"))]),
    (["--python", "3.12"], [0], [("3.12", run_tests.SHORT)]),
    (["--python", "3.12", "-x"], [0], [("3.12", ("-x",))]),
    (["--worlds"], [1, 0], [("3.13", ())]),
    (["--worlds"], [0, 2], [("3.13", ())]),
])
def test_each_python_runs_its_tests_and_a_failure_on_either_counts(monkeypatch, words, codes, runs):
    done, left, beside = [], list(codes), []

    def run(python, words):
        done.append((python, tuple(words)))
        return left.pop(0)

    def runs_beside(name, command):
        beside.append((name, command[3:]))
        return left.pop() == 0

    monkeypatch.setattr(run_tests, "_test", run)
    monkeypatch.setattr(run_tests, "_stage", runs_beside)
    for name in ("find_python", "given_python"):
        monkeypatch.setattr(run_tests, name, lambda wanted: wanted)
    assert bool(run_tests.main(argparse.Namespace(rest=words))) == any(codes)
    assert done == runs
    expected = ("tests on Python 3.10", ["--python", "3.10", *run_tests.SHORT, "-n", "1"])
    assert beside == ([expected] if words == ["--worlds"] else [])


def test_every_check_runs_and_each_that_fails_is_named(monkeypatch, capfd):
    monkeypatch.setattr(run_tests, "javascript", lambda stage: ["the JavaScript tests"])
    monkeypatch.setattr(run_tests, "CHECKS", {
        "good": ("-c", "print('kept back')"), "bad": ("-c", "print('why'); raise SystemExit(3)"),
    })
    assert run_tests._failing_checks(Path(sys.executable)) == ["bad", "the JavaScript tests"]
    said = capfd.readouterr().out
    assert "good: passed" in said and "why\n\nbad: FAILED with exit code 3" in said
    assert "kept back" not in said
