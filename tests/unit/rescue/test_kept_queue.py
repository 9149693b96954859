"""The queue of a killed server is offered, queued again, or discarded."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rescue_bench import FakeQueue, item

from headroom.base.device import MIB
from headroom.base.said import Refused, said_json
from headroom.rescue import kept_queue as module
from headroom.rescue.kept_queue import RAN_KEY, KeptQueue
from headroom.rescue.settings import QUEUE_SETTING, QUEUE_VARIABLE, queue_of

ROOT = Path(__file__).resolve().parents[3]


def test_a_python_without_sqlite_costs_the_kept_queue_and_nothing_else(tmp_path):
    left = tmp_path / "left.sqlite"
    left.write_bytes(b"of a server whose Python had it")
    code = f"""if True:
        import sys
        sys.modules["_sqlite3"] = None
        from pathlib import Path
        import headroom.start
        from headroom.rescue.kept_queue import KeptQueue
        server = KeptQueue(None, Path({str(tmp_path)!r}), "keep")
        server.changed()
        server.start()
        print(server.left()["prompts"], server.outputs_of("a"))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[] None\n", (
        f"[Headroom] the queue is not kept in a file in {tmp_path} while this fails: this Python "
        "was compiled without SQLite\n"))
    assert left.exists()


def test_the_page_is_told_which_node_ran_with_how_much_ram_and_how_many_had_not_run(killed):
    memory = [(["1"], 100 * MIB, 900 * MIB), (["1", "5"], 300 * MIB, 700 * MIB),
              ([], 950 * MIB, 50 * MIB), (["5"], 960 * MIB, 40 * MIB)]
    left = killed(FakeQueue([item(1, "a")], [item(2, "b"), item(3, "c")]), memory=memory).left()
    assert left["text"] == (
        "The server ended while VAE Decode (node 5) of prompt a ran, with 960.0 MiB of RAM in use "
        "by it and 40.0 MiB left. In its last minutes its RAM grew most in VAE Decode (node 5): "
        "650.0 MiB. 2 prompts had not run.")
    assert [(one["prompt_id"], one["was_running"]) for one in left["prompts"]] == [
        ("b", False), ("c", False), ("a", True)]
    assert [(one["node_id"], one["rss_mib"], one["free_mib"]) for one in left["samples"]] == [
        ("1", 100, 900), ("5", 300, 700), (None, 950, 50), ("5", 960, 40)]


def test_ram_that_an_earlier_prompt_took_is_not_said_of_the_node_with_the_same_number(
    monkeypatch, tmp_path
):
    host = FakeQueue([item(1, "before")])
    server = KeptQueue(host, tmp_path, "keep")
    for host.running, host.nodes, rss in (([item(1, "before")], ["1"], 100),
                                          ([item(1, "before")], ["5"], 900),
                                          ([item(2, "a")], ["1"], 200),
                                          ([item(2, "a")], ["5"], 210)):
        server.changed()
        monkeypatch.setattr(module, "rss_bytes", lambda rss=rss: rss * MIB)
        server.look()
    server._file.close()  # as the system does
    assert "grew most in Loader (node 1): 10.0 MiB." in KeptQueue(
        FakeQueue(), tmp_path, "keep").left()["text"]


def test_a_server_that_ended_between_two_prompts_says_only_what_had_not_run(killed):
    left = killed(FakeQueue([], [item(2, "b")])).left()
    assert left["text"] == "1 prompt had not run."
    assert left["said"] == said_json(left["text"])


def test_queued_again_they_come_in_their_order_before_all_others_and_what_ran_last(killed):
    new = FakeQueue(waiting=[item(0, "new")])
    server = killed(FakeQueue([item(1, "a")], [item(3, "c"), item(2, "b")]), next_host=new)
    assert server.queue_again() == {"queued": ["b", "c", "a"], "refused": []}
    assert [one[1] for one in new.waiting] == ["b", "c", "a", "new"]
    assert server.left()["prompts"] == []
    assert new.told == [("headroom.queue", {}, None)]  # every page looks again
    with pytest.raises(Refused, match="decided"):
        server.queue_again()
    with pytest.raises(Refused, match="decided"):
        server.discard()


def test_discarded_they_are_gone_for_good(killed, tmp_path):
    new = FakeQueue()
    server = killed(FakeQueue([item(1, "a")], [item(2, "b")]), next_host=new)
    assert server.discard() == {"discarded": 2}
    assert new.told == [("headroom.queue", {}, None)]
    server._file.close()
    assert KeptQueue(FakeQueue(), tmp_path, "keep").left()["prompts"] == []


def test_a_prompt_that_comfyui_refuses_is_reported_and_can_be_discarded(killed):
    new = FakeQueue()
    new.refuses = {"b"}
    server = killed(FakeQueue([], [item(1, "a"), item(2, "b")]), next_host=new)
    assert server.queue_again() == {
        "queued": ["a"], "refused": [{"prompt_id": "b", "error": "no such file"}]}
    assert [one["prompt_id"] for one in server.left()["prompts"]] == ["b"]


def test_queued_by_itself_what_ran_comes_last_and_only_once(killed, caplog):
    """`a` ends every server that it runs on."""
    second = FakeQueue()
    running = killed(FakeQueue([item(1, "a", x=1)], [item(2, "b")]), "resume", next_host=second)
    running._resume()  # it stays alive: a collected server leaves its file to the third
    assert [one[1] for one in second.waiting] == ["b", "a"]
    [_, again] = second.waiting
    assert again[3] == {"x": 1, "headroom": {RAN_KEY: True}}
    third = FakeQueue()
    died = FakeQueue([again], [item(9, "d")])
    server = killed(died, "resume", next_host=third)
    server._resume()
    assert [one[1] for one in third.waiting] == ["d"]
    assert [one["prompt_id"] for one in server.left()["prompts"]] == ["a"]
    assert "had run so once before" in caplog.text


def test_off_nothing_is_written_and_nothing_asked(tmp_path):
    server = KeptQueue(FakeQueue([item(1, "a")]), tmp_path / "queue", "off")
    server.start()
    server.changed()
    server.look()
    assert server.left()["prompts"] == [] and not (tmp_path / "queue").exists()


def test_what_its_client_has_queued_again_by_itself_is_not_queued_twice(killed):
    host = FakeQueue(waiting=[item(0, "a")])
    server = killed(FakeQueue([], [item(1, "a"), item(2, "b")]), next_host=host)
    assert server.queue_again() == {"queued": ["b"], "refused": []}
    assert [one[1] for one in host.waiting] == ["b", "a"] and server.left()["prompts"] == []


def test_one_prompt_that_cannot_be_validated_costs_no_other(killed, monkeypatch):
    host = FakeQueue()
    server = killed(FakeQueue([], [item(1, "a"), item(2, "b")]), next_host=host)

    def validated(prompt_id, prompt, outputs):
        if prompt_id == "a":
            raise TimeoutError
        return outputs

    monkeypatch.setattr(host, "validated", validated)
    assert server.queue_again() == {
        "queued": ["b"], "refused": [{"prompt_id": "a", "error": "TimeoutError"}]}


def test_while_comfyui_validates_what_was_left_prompts_begin_and_somebody_may_discard_it(
    killed, monkeypatch
):
    host = FakeQueue()
    server = killed(FakeQueue([], [item(1, "a")]), next_host=host)

    def validated(prompt_id, prompt, outputs):
        other = threading.Thread(target=server.discard, daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()
        return outputs

    monkeypatch.setattr(host, "validated", validated)
    assert server.queue_again()["queued"] == [] and host.waiting == []


def test_the_environment_wins_over_the_setting_and_a_wrong_word_is_told_once(caplog):
    assert queue_of({}, {}) == "keep"
    assert queue_of({}, {QUEUE_SETTING: False}) == "off"
    assert queue_of({QUEUE_VARIABLE: "resume"}, {QUEUE_SETTING: False}) == "resume"
    assert [queue_of({QUEUE_VARIABLE: "always"}, {}) for _ in range(2)] == ["keep", "keep"]
    [record] = caplog.records
    assert "HEADROOM_QUEUE to be off, keep or resume" in record.getMessage()


def test_a_clock_that_goes_back_hides_no_node(killed, monkeypatch):
    times = iter([5000.0, 1000.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: next(times)))
    memory = [(["1"], 100 * MIB, 900 * MIB), (["1"], 950 * MIB, 50 * MIB)]
    left = killed(FakeQueue([item(1, "a")]), memory=memory).left()
    assert "with 950.0 MiB of RAM in use by it and 50.0 MiB left" in left["text"]
