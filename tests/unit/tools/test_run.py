"""`dev.py run`: what is printed, and what is refused."""

import json

import pytest
from support.run_servers import FakeServer, Growing, started
from support.saved import WORKFLOW

from tools import run
from tools.client import Client, PromptInvalid
from tools.errors import DevError
from tools.events import NoEvents


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Run the small workflow at this server."""
    monkeypatch.setattr(run, "POLL_SECONDS", 0)
    return lambda server, *words: started(monkeypatch, tmp_path, server, *words)


def test_a_run_prints_reports_files_and_the_memory_table(start, capsys):
    server = FakeServer()
    assert start(server, "--set", "4.steps=2") == 0
    assert server.queued["4"]["inputs"]["steps"] == 2
    shown = capsys.readouterr().out
    assert "Sample it (4):\n4 MiB freed" in shown and "Saved: s/a.png" in shown
    assert "VRAM before" in shown and "[########################] 4/4 done" in shown


def test_advice_is_shown_only_where_it_is_asked_for(start, capsys):
    class Advising(FakeServer):
        def get(self, path):
            one = {"text": "Do it.", "saves_mib": [10, 20], "edit": {}, "changes_picture": False}
            return (200, [one]) if path.endswith("/advice") else super().get(path)

    server = Advising()
    assert start(server, "--advice") == 0
    assert server.emptied == 1  # else a run that comes from the cache would need nothing
    assert "1. Do it.\n   Saves 10 to 20 MiB; the picture stays." in capsys.readouterr().out
    assert start(Advising()) == 0
    assert "Do it." not in capsys.readouterr().out
    start(Advising(), "--advice", "--json")
    assert json.loads(capsys.readouterr().out)[0]["advice"][0]["text"] == "Do it."


def test_a_failed_run_ends_with_the_error_and_a_status(start, capsys):
    assert start(FakeServer(failed=True)) == 1
    shown = capsys.readouterr()
    assert "Node 4 (Sample) failed with OutOfMemoryError: Allocation on device" in shown.err
    assert "VRAM before" in shown.out and "done" not in shown.out


def refusing(details, status=400):
    def refuse(prompt, client_id=None):
        raise PromptInvalid(status, details)

    return refuse


def test_a_run_that_its_server_rescues_is_followed_to_its_end(start, capsys):
    class Rescuing(FakeServer):
        def wait(self, prompt_id, timeout=0):
            self.failed = prompt_id == "id-1"
            return super().wait(prompt_id)

        def get(self, path):
            second = "id-2" if path.endswith("/id-1") else None
            return 200, {**super().get(path)[1], "rescued_as": second}

    assert start(Rescuing(), "--json") == 0
    shown = capsys.readouterr()
    [result] = json.loads(shown.out)
    assert (result["prompt_id"], result["error"]) == ("id-2", None)
    assert "ran out of memory; its rerun is id-2" in shown.err


def test_a_refused_prompt_says_which_node_and_why(start):
    server = FakeServer()
    details = {"error": {"message": "Prompt outputs failed validation"}, "node_errors": {
        "2": {"class_type": "Load", "errors": [
            {"message": "Value not in list", "details": "name: 'b' not in ['a']"}]}}}

    server.queue = refusing(details)
    with pytest.raises(DevError, match=r"node 2 \(Load\): Value not in list: name: 'b' not in"):
        start(server)


@pytest.mark.parametrize(("words", "code", "sentence"), [
    (["--max-vram-mib", "1000"], 0, ""),
    (["--max-vram-mib", "999"], 3, "workflow needed 1,000.0 MiB of VRAM, 999 are allowed."),
    (["--max-ram-mib", "499"], 3, "workflow needed 500.0 MiB of RAM, 499 are allowed."),
    (["--max-ram-mib", "499", "--max-vram-mib", "5000"], 3, "of RAM, 499 are allowed."),
    (["--max-ram-mib", "499", "--max-vram-mib", "999"], 3,
     "of VRAM, 999 are allowed. workflow needed 500.0 MiB of RAM, 499 are allowed."),
    ([], 0, ""),
])
def test_a_budget_has_an_exit_code_and_a_line_of_its_own(start, capsys, words, code, sentence):
    assert start(Growing(), *words) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if "Over budget" in line]
    assert len(lines) == (code == 3) and sentence in "".join(lines)


def test_a_failed_run_is_a_failure_even_when_it_is_over_its_budget(start):
    words = ("--max-vram-mib", "1")
    assert start(FakeServer(failed=True), *words) == 1


@pytest.mark.parametrize(("server", "words"), [
    (Growing(peak_vram_mib=None), "does not tell its VRAM"), (None, "has no Headroom"),
])
def test_a_budget_that_nobody_can_check_is_no_success(start, server, words):
    if server is None:
        server = FakeServer()
        server.get = lambda path: (404, "")
        server.run = refusing({"node_errors": {}, "error": {"message": "no such node"}})
    with pytest.raises(DevError, match=words):
        start(server, "--max-vram-mib", "1000")


def test_several_files_and_seeds_run_under_one_bar(start, tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(WORKFLOW), encoding="utf-8")
    server = Growing()
    words = (str(other), "--seed", "7", "--seed", "8", "--max-vram-mib", "3000")
    assert start(server, *words) == 3
    assert [prompt["4"]["inputs"]["seed"] for prompt in server.prompts] == [7, 8, 7, 8]
    shown = capsys.readouterr()
    assert shown.out.count("16/16 done") == 1 and "other, seed 8" in shown.out
    assert "Over budget: other, seed 8 needed 4,000.0 MiB of VRAM" in shown.err


def test_for_machines_there_is_one_json_list_and_nothing_else(start, capsys):
    words = ("--json", "--seed", "7", "--seed", "8", "--max-vram-mib", "1500")
    assert start(Growing(), *words) == 3
    first, second = json.loads(capsys.readouterr().out)
    assert (first["seed"], first["peak_vram_mib"], first["over_budget"]) == (7, 1000.0, [])
    assert second["over_budget"] == [
        "workflow, seed 8 needed 2,000.0 MiB of VRAM, 1,500 are allowed."
    ]
    assert first["saved"] == ["s/a.png"] and first["error"] is None


def test_a_run_with_a_budget_begins_with_nothing_left_of_the_one_before(start):
    server = Growing()
    start(server, "--seed", "7", "--seed", "8", "--max-ram-mib", "9000")
    assert server.emptied == 2
    start(server, "--seed", "7")
    assert server.emptied == 2


def test_a_server_that_dies_leaves_the_json_of_what_was_run(start, capsys):
    class Dying(Growing):
        def queue(self, prompt, client_id=None):
            if self.prompts:
                raise ConnectionResetError("reset by peer")
            return super().queue(prompt)

    with pytest.raises(DevError, match="No server answers"):
        start(Dying(), "--json", *"--seed 7 --seed 8 --seed 9".split())
    first, second = json.loads(capsys.readouterr().out)
    assert (first["seed"], first["error"], first["peak_vram_mib"]) == (7, None, 1000.0)
    assert second["seed"] == 8 and "No server answers" in second["error"]
    assert first.keys() == second.keys()


def test_without_a_websocket_the_record_is_followed(start, capsys):
    class Proxied(FakeServer):
        def events(self):
            raise NoEvents("Handshake status 404")

    assert start(Proxied()) == 0
    assert "4/4 done" in capsys.readouterr().out


def test_an_address_that_is_not_comfyui_gets_one_sentence(start, monkeypatch):
    server = FakeServer()
    monkeypatch.setattr(server, "get_json", Client("http://host").get_json)
    monkeypatch.setattr(Client, "get", lambda self, path: (404, "<html>\n</html>"))
    with pytest.raises(DevError, match="no working ComfyUI: GET /object_info answered 404"):
        start(server)

    server = FakeServer()
    server.queue = refusing("<html>\n<p>nothing here</p>\n</html>", status=404)
    with pytest.raises(DevError) as refused:
        start(server)
    assert "status 404" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("words", [("--timeout", "0.5"), ("--timeout", "0.5", "--json")])
def test_a_run_is_waited_for_once_and_then_goes_on_at_its_server(
    start, monkeypatch, capsys, words
):
    class Endless(FakeServer):
        def history(self, prompt_id):
            self.looks += 1

        def wait(self, prompt_id, timeout=0):
            raise AssertionError("waited again")

    sentence = "Prompt id-1 did not finish within 0.5 s. It goes on at http://127.0.0.1:8188"
    server = Endless()
    # Each look takes a tenth of a second; other threads may read this clock as well.
    monkeypatch.setattr(run.time, "monotonic", lambda: 0.1 * server.looks)
    with pytest.raises(DevError, match=sentence):
        start(server, *words)
    assert server.looks == 5
    if "--json" in words:
        [result] = json.loads(capsys.readouterr().out)
        assert sentence in result["error"]
