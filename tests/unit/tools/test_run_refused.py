"""Words, files and servers that `dev.py run` cannot use get one sentence each."""

import argparse
import json

import pytest
from support.run_servers import FakeServer
from support.saved import WORKFLOW

from tools import advise, jobs, run
from tools.errors import DevError


def test_a_server_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(WORKFLOW), encoding="utf-8")
    args = argparse.Namespace(files=[file], server="http://127.0.0.1:9", settings=[], seeds=[],
                              timeout=1, json=False, max_vram_mib=None, max_ram_mib=None)
    with pytest.raises(DevError, match="No server answers at http://127.0.0.1:9"):
        run.main(args)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[1, 2]", "neither a workflow"), (b"{", "is not JSON"), (b'{"a": 1}', "neither a workflow"),
     (b"[" * 100_000, "is not JSON"), (b"\x89PNG", "is no text"), (b"{}", "no node that runs"),
     (b'{"nodes": []}', "no node that runs"), (b'{"nodes": [{"id": 1}]}', "neither a workflow"),
     (b'{"1": {"class_type": "KSampler"}}', "neither a workflow")],
)
def test_a_file_that_is_no_workflow_is_explained(tmp_path, content, words):
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(DevError, match=words):
        jobs.read_prompt(file, FakeServer())


def test_a_file_that_an_editor_of_windows_saved_is_read(tmp_path):
    (tmp_path / "marked.json").write_text(json.dumps(WORKFLOW), encoding="utf-8-sig")
    assert jobs.read_file(tmp_path / "marked.json") == WORKFLOW


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DevError, match="gone.json cannot be read"):
        jobs.read_prompt(tmp_path / "gone.json", FakeServer())


@pytest.mark.parametrize("word", ["0", "-1", "lots", "1.5", "9" * 5000, "٣", ""])
def test_a_budget_that_is_no_number_is_refused(word, capsys):
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["x.json", f"--max-vram-mib={word}"])
    assert "a budget is a whole number of MiB, 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("tool", [run, advise])
@pytest.mark.parametrize("word", [
    "nonsense", "127.0.0.1:8188", "ftp://host", "http://", "http://host:port", "http://[1", "",
    "http://ho st",
])
def test_a_server_that_is_no_address_is_refused(tool, word, capsys):
    parser = argparse.ArgumentParser()
    tool.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["x.json", f"--server={word}"])
    assert "a server is named as in http://127.0.0.1:8188" in capsys.readouterr().err


def test_a_workflow_without_a_seed_says_so(tmp_path):
    prompt = {"1": {"class_type": "Load", "inputs": {"seed": ["2", 0]}}}
    with pytest.raises(DevError, match="has no node with a seed"):
        jobs.with_seed(prompt, 3, tmp_path / "a.json")
