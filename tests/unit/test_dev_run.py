"""`dev.py run`: values changed on the way, what is printed, and what is refused."""

import argparse
import copy
import json

import pytest
from support.saved import OBJECT_INFO, PROMPT, WORKFLOW

from devtools import run, settings
from devtools.client import PromptInvalid
from devtools.errors import DevError


@pytest.mark.parametrize(
    ("text", "setting"),
    [("3.steps=20", ("3.steps", 20)), ("a.b=true", ("a.b", True)), ("a.b=x=y", ("a.b", "x=y")),
     ("My. node.name=out", ("My. node.name", "out")), ('a.b="20"', ("a.b", "20"))],
)
def test_a_setting_is_json_or_text(text, setting):
    assert settings.parse_setting(text) == setting


@pytest.mark.parametrize("text", ["steps=20", "3.steps", ""])
def test_a_malformed_setting_is_explained(text):
    with pytest.raises(DevError, match="NODE.INPUT=VALUE"):
        settings.parse_setting(text)


@pytest.mark.parametrize("key", ["4.steps", "Sample it.steps", "Sample.steps"])
def test_a_node_is_found_by_id_title_or_class_and_the_original_stays(key):
    prompt = copy.deepcopy(PROMPT)
    assert settings.with_settings(prompt, {key: 3})["4"]["inputs"]["steps"] == 3
    assert prompt["4"]["inputs"]["steps"] == 20


def test_a_setting_for_nothing_is_refused_with_what_there_is():
    with pytest.raises(DevError, match="4 Sample it"):
        settings.with_settings(PROMPT, {"KSampler.steps": 3})
    with pytest.raises(DevError, match="no input 'cfg'; it has seed, steps, mode, model, image"):
        settings.with_settings(PROMPT, {"4.cfg": 3})


class FakeServer:
    """Answers as a server without websocket does; the run ends at the third look."""

    def __init__(self, failed=False):
        self.looks, self.failed, self.queued = 0, failed, None

    def get_json(self, path):
        assert path == "/object_info"
        return OBJECT_INFO

    def events(self):
        raise ImportError("no websocket")

    def queue(self, prompt, client_id=None):
        self.queued = prompt
        return "id-1"

    def history(self, prompt_id):
        self.looks += 1
        return self.wait(prompt_id) if self.looks > 2 else None

    def wait(self, prompt_id, timeout=0):
        error = ["execution_error", {"node_id": "4", "node_type": "Sample",
                                     "exception_type": "OutOfMemoryError",
                                     "exception_message": "Allocation on device"}]
        status = {"status_str": "error" if self.failed else "success",
                  "messages": [error] if self.failed else []}
        images = {"images": [{"filename": "a.png", "subfolder": "s", "type": "output"}]}
        return {"status": status, "outputs": {"4": {"text": ["4 MiB freed"]}, "5": images}}

    def get(self, path):
        node = {"node_id": "4", "class_type": "Sample", "title": "Sample it", "seconds": 1.5,
                "cached": False, "vram_before_mib": 1.0, "vram_after_mib": 2.0,
                "peak_vram_mib": 3.0}
        return 200, {"nodes": [node], "seconds": 2.0, "peak_vram_mib": 3.0}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(run, "POLL_SECONDS", 0)


def started(monkeypatch, tmp_path, server, *words):
    monkeypatch.setattr(run, "Client", lambda url: server)
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(WORKFLOW), encoding="utf-8")
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return run.main(parser.parse_args([str(file), *words]))


def test_a_run_prints_reports_files_and_the_memory_table(monkeypatch, tmp_path, capsys, quick):
    server = FakeServer()
    assert started(monkeypatch, tmp_path, server, "--set", "4.steps=2") == 0
    assert server.queued["4"]["inputs"]["steps"] == 2
    shown = capsys.readouterr().out
    assert "Sample it (4):\n4 MiB freed" in shown and "Saved: s/a.png" in shown
    assert "VRAM before" in shown and "[########################] 4/4 done" in shown


def test_a_failed_run_ends_with_the_error_and_a_status(monkeypatch, tmp_path, capsys, quick):
    assert started(monkeypatch, tmp_path, FakeServer(failed=True)) == 1
    shown = capsys.readouterr()
    assert "Node 4 (Sample) failed with OutOfMemoryError: Allocation on device" in shown.err
    assert "VRAM before" in shown.out and "done" not in shown.out


def test_a_refused_prompt_says_which_node_and_why(monkeypatch, tmp_path, quick):
    server = FakeServer()
    details = {"error": {"message": "Prompt outputs failed validation"}, "node_errors": {
        "2": {"class_type": "Load", "errors": [
            {"message": "Value not in list", "details": "name: 'b' not in ['a']"}]}}}

    def refuse(prompt, client_id=None):
        raise PromptInvalid(400, details)

    server.queue = refuse
    with pytest.raises(DevError, match=r"node 2 \(Load\): Value not in list: name: 'b' not in"):
        started(monkeypatch, tmp_path, server)


def test_a_server_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(WORKFLOW), encoding="utf-8")
    args = argparse.Namespace(file=file, server="http://127.0.0.1:9", settings=[], timeout=1)
    with pytest.raises(DevError, match="No server answers at http://127.0.0.1:9"):
        run.main(args)


@pytest.mark.parametrize(
    ("content", "words"),
    [("[1, 2]", "neither a workflow"), ("{", "is not JSON"), ('{"a": 1}', "neither a workflow")],
)
def test_a_file_that_is_no_workflow_is_explained(tmp_path, content, words):
    file = tmp_path / "other.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DevError, match=words):
        run.read_prompt(file, FakeServer())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DevError, match="gone.json cannot be read"):
        run.read_prompt(tmp_path / "gone.json", FakeServer())
