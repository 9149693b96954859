"""`dev.py advise` and `dev.py run --advice`: what is asked, applied, written and said."""

import argparse
import json

import pytest
from support.run_servers import FakeServer
from support.saved import PROMPT, WORKFLOW

from tools import advice, advise
from tools.errors import DevError

SET = {"steps": [{"op": "set", "node": "4", "input": "steps", "value": 5}]}
RUN = {"prompt_id": "id-1", "device": "cuda:0", "peak_vram_mib": 9000.0,
       "peak_vram_at_most_mib": 9000.0}


def item(kind="encode_to_cpu", edit=SET, expected=None, **more):
    return {"kind": kind, "text": f"Do {kind}.", "saves_mib": [0, 1500.0], "edit": edit,
            "changes_picture": False, "measured_mib": None,
            **({"expected_mib": expected} if expected else {}), **more}


class Server(FakeServer):
    """A server that knows one run, and what to change in it."""

    def __init__(self, found, record=RUN):
        super().__init__()
        self.found, self.record, self.asked, self.ran = found, record, [], []

    def get(self, path):
        self.asked.append(path)
        if "/advice" in path:
            return (200, self.found) if self.found is not None else (404, {"error": "Gone."})
        return (200, self.record) if self.record else (404, {"error": "Not known."})

    def queue(self, prompt, client_id=None):
        self.ran.append(prompt)
        return "id-1"

    def history(self, prompt_id):
        return self.wait(prompt_id)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start the command on a file with this in it; returns the server and what was written."""
    def started(data, server, *words):
        file, out = tmp_path / "in.json", tmp_path / "out.json"
        file.write_text(json.dumps(data), encoding="utf-8")
        monkeypatch.setattr(advise, "Client", lambda url: server)
        parser = argparse.ArgumentParser()
        advise.add_arguments(parser)
        status = advise.main(parser.parse_args([str(file), "--out", str(out), *words]))
        return status, json.loads(out.read_text(encoding="utf-8")) if out.exists() else None

    return started


def test_the_changed_api_prompt_is_written_for_a_workflow_and_for_a_prompt(start):
    wanted = {**PROMPT, "4": {**PROMPT["4"], "inputs": {**PROMPT["4"]["inputs"], "steps": 5}}}
    assert start(PROMPT, Server([item()]))[1] == wanted
    _, made = start(WORKFLOW, Server([item()]))
    assert made["4"]["inputs"] == wanted["4"]["inputs"] and made.keys() == wanted.keys()


def test_the_workflow_is_run_once_unless_a_run_is_named(start):
    server = Server([item()])
    start(PROMPT, server)
    assert server.ran == [PROMPT]
    server = Server([item()])
    start(PROMPT, server, "--record", "id-7")
    assert server.ran == [] and "/headroom/runs/id-7/advice" in server.asked


def test_the_run_shows_all_that_the_workflow_needs_also_if_it_has_run_before(start):
    """What comes from ComfyUI's cache needs nothing, and then there would be nothing to advise."""
    server = Server([item()])
    start(PROMPT, server)
    assert (server.emptied, len(server.ran)) == (1, 1)
    start(PROMPT, server, "--record", "id-7")
    assert server.emptied == 1


def test_the_size_is_asked_for_and_what_to_expect_is_said(start, capsys):
    server = Server([item(expected=[7000.0, 7500.0])])
    assert start(PROMPT, server, "--into", "8")[0] == 0
    said = capsys.readouterr().out
    assert "?into_gib=8" in server.asked[-1]
    assert "Measured: 9,000 MiB" in said and "Saves up to 1,500 MiB; the picture stays." in said
    assert "Expected: 7,000 to 7,500 MiB at most, where 8,192 MiB are wanted." in said


def test_a_size_that_may_not_be_reached_is_told_by_the_exit_code(start, capsys):
    server = Server([item(expected=[5000.0, 7500.0])])
    assert start(PROMPT, server, "--into", "6")[0] == advise.NOT_REACHED
    assert "may not be enough" in capsys.readouterr().out
    assert start(PROMPT, Server([]), "--into", "6")[0] == advise.NOT_REACHED
    assert start(PROMPT, Server([]), "--into", "9")[0] == 0


def test_settings_are_said_and_not_applied(start, capsys):
    _, made = start(PROMPT, Server([item("other_process", edit=None)]))
    assert made == PROMPT and "a setting" in capsys.readouterr().out


@pytest.mark.parametrize("server, words, said", [
    (Server(None), (), "no advice: Gone"),
    (Server([], record=None), (), "no record of run id-1: Not known"),
    (Server([], record={**RUN, "peak_vram_mib": None}), (), "on the CPU"),
    (Server([]), ("--into", "-3"), "--into expects a size in GiB"),
    (Server([item(edit={"steps": [{**SET["steps"][0], "node": "99"}]})]), (), "'99'"),
])
def test_what_goes_wrong_is_one_sentence(start, server, words, said):
    with pytest.raises(DevError, match=said):
        start(PROMPT, server, *words)


def test_advice_reads_as_a_list_with_what_it_has_saved():
    one = item(measured_mib={"mib": 1234.0, "run": "x", "together": []}, changes_picture=True)
    assert advice.text([one]) == (
        "What to change:\n1. Do encode_to_cpu.\n"
        "   Saves up to 1,500 MiB; can change the picture; it has saved 1,234 MiB."
    )
    assert advice.saving(item("oom_guard")).startswith("Needs up to 1,500 MiB less where memory ")
    assert advice.saving(item("purge_between", values={"after": True})).startswith(
        "Leaves up to 1,500 MiB less on the GPU after the run; ")
    assert advice.text([]) == "There is nothing to advise."
    assert advice.span([10, 10]) == "10 MiB" and advice.span([10, 2000]) == "10 to 2,000 MiB"
