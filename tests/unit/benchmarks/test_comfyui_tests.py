"""The comparison of ComfyUI's own tests, on a small tree that stands for ComfyUI."""

import argparse
import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--port", type=int)
    parser.addoption("--skip-timing-checks", action="store_true")
"""
TESTS = """
import subprocess, sys
import pytest

def test_always():
    out = subprocess.run(["python", "main.py", "--port", "1"], capture_output=True, text=True)
    print(out.stdout, out.stderr)
    assert out.returncode == 0

@pytest.mark.skip
def test_never(): ...

def test_never_works():
    assert False

def test_only_without_packs():
    import os
    assert os.listdir("custom_nodes") == []
"""
MAIN = """
import os, sys
assert not any("benchmarks" in entry for entry in sys.path)
for name in os.listdir("custom_nodes"):
    print("loaded", os.path.join("custom_nodes", name))
"""


@pytest.fixture
def suite(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("comfyui_tests")


@pytest.fixture
def tree(tmp_path):
    """A tree with a server, tests, and things that must not be copied."""
    root = tmp_path / "comfyui"
    for name, text in {
        "main.py": MAIN, "pytest.ini": "[pytest]\naddopts = -s\n", "tests/conftest.py": CONFTEST,
        "tests/execution/test_it.py": TESTS, "models/big.bin": "", "custom_nodes/other/a.py": "",
        "comfy/models/kept.py": "", "extra_model_paths.yaml": "custom_nodes: elsewhere",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_tests_that_differ_with_the_pack_or_fail_in_both_runs_are_named(suite, tree, tmp_path):
    parser = argparse.ArgumentParser()
    suite.add_arguments(parser)
    logs = tmp_path / "logs"
    result = suite.run(parser.parse_args(["--comfyui", str(tree), "--log", str(logs)]))
    assert result["count"] == 4
    assert result["without"] == {"failed": 1, "passed": 2, "skipped": 1}
    assert result["differing"] == {
        "tests.execution.test_it::test_only_without_packs": ["passed", "failed"]
    }
    assert result["failed_in_both"] == ["tests.execution.test_it::test_never_works"]
    assert "loaded custom_nodes" in (logs / "comfyui_tests_with.log").read_text("utf-8")
    assert sorted(path.name for path in tree.iterdir()) == [
        "comfy", "custom_nodes", "extra_model_paths.yaml", "main.py", "models", "pytest.ini",
        "tests",
    ]


def test_the_copy_leaves_out_models_and_other_packs(suite, tree, tmp_path):
    copied = suite.copy_tree(tree, tmp_path / "copy", BENCHMARKS.parent)
    assert [path.name for path in (copied / "custom_nodes").iterdir()] == ["headroom"]
    assert not (copied / "models" / "big.bin").exists()
    assert not (copied / "extra_model_paths.yaml").exists()
    assert (copied / "comfy" / "models" / "kept.py").exists()
    assert (tree / "extra_model_paths.yaml").exists()


def test_a_run_in_which_the_pack_was_not_loaded_proves_nothing(suite, tmp_path):
    log = tmp_path / "log"
    for text, wanted in (("nothing", True), ("custom_nodes/headroom", False),
                         ("0.1 seconds (IMPORT FAILED): custom_nodes/headroom", True)):
        log.write_text(text, encoding="utf-8")
        with pytest.raises(RuntimeError, match="Expected this pack to be loaded"):
            suite.check_loaded(log, wanted)
