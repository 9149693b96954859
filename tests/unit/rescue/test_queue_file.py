"""The file of a server's queue: whole after a kill, and held for as long as its process runs."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headroom.rescue.left_queues import left_queues
from headroom.rescue.queue_file import KEPT_SECONDS, Sample, new_file

ROOT = Path(__file__).parents[3]
SERVER = """
import sys, time
from pathlib import Path
from headroom.rescue.queue_file import Sample, new_file
file = new_file(Path(sys.argv[1]))
item = lambda number, name: (number, name, {"1": {"class_type": "A"}}, {"client_id": "me"}, ["1"],
                             {"api_key_comfy_org": "secret"})
file.keep([item(1.0, "one")], [item(3.0, "three"), item(2.0, "two")])
file.note(Sample(7.0, "1", 100, 50))
print("kept", flush=True)
sys.stdin.read()
"""


def item(number, name, prompt=None):
    return (number, name, prompt or {"1": {"class_type": "A"}}, {}, ["1"], {})


@pytest.fixture
def other(tmp_path):
    """Another process that keeps its queue in the same folder."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)], cwd=ROOT,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "kept\n"
    yield process
    process.kill()
    process.communicate()


def test_a_living_server_keeps_its_queue_and_a_killed_ones_is_found_whole(tmp_path, other):
    assert left_queues(tmp_path) == []
    other.kill()
    other.wait()
    [left] = left_queues(tmp_path)
    assert [(one.prompt_id, one.number, one.was_running) for one in left.prompts] == [
        ("one", 1.0, True), ("two", 2.0, False), ("three", 3.0, False)]
    assert left.prompts[0][3:] == ({"1": {"class_type": "A"}}, {"client_id": "me"}, ["1"], 0)
    assert left.samples == [Sample(7.0, "1", 100, 50)] and left.ended_at == 7.0
    left.file.remove()
    assert os.listdir(tmp_path) == []


def test_a_prompt_is_in_the_file_until_it_has_ended(tmp_path):
    file = new_file(tmp_path)
    file.keep([], [item(1, "a"), item(2, "b")])
    file.keep([item(1, "a")], [item(2, "b"), item(0, "c")])
    assert [(one.prompt_id, one.was_running) for one in file.prompts()] == [
        ("a", True), ("c", False), ("b", False)]
    file.keep([item(0, "c")], [item(2, "b")])
    assert [one.prompt_id for one in file.prompts()] == ["c", "b"]
    file.keep([], [])
    file.close()
    assert left_queues(tmp_path) == [] and os.listdir(tmp_path) == []


@pytest.mark.parametrize("count", [1, 300])
def test_nothing_of_the_prompts_that_ended_is_on_disk_and_only_this_user_reads_the_others(
    tmp_path, count
):
    file = new_file(tmp_path)
    items = [item(n, str(n), {"1": {"inputs": {"text": "a secret " * 500}}}) for n in range(count)]
    file.keep([], items)
    found = list(tmp_path.iterdir())
    assert any(b"a secret" in path.read_bytes() for path in found)
    assert os.name == "nt" or {path.stat().st_mode & 0o77 for path in found} == {0}
    file.keep(items[:1], [])
    file.keep([], [])
    assert not any(b"a secret" in path.read_bytes() for path in tmp_path.iterdir())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000
    file.close()


def test_a_prompt_that_was_queued_again_is_not_left_a_second_time(tmp_path):
    file = new_file(tmp_path)
    file.keep([], [item(1, "a"), item(2, "b")])
    file.close()
    [left] = left_queues(tmp_path)
    left.file.drop({"a"})
    left.file.close()
    [left] = left_queues(tmp_path)
    assert [one.prompt_id for one in left.prompts] == ["b"]


def test_only_the_last_minutes_of_memory_are_kept(tmp_path):
    file = new_file(tmp_path)
    file.note(Sample(0.0, None, 1, 1))
    for second in range(1, 1001):
        file.note(Sample(float(second), "1", 1, 1))
    first, last = file.samples()[0].at, file.samples()[-1].at
    assert last == 1000 and KEPT_SECONDS <= last - first <= KEPT_SECONDS + 200


@pytest.mark.parametrize("spoil", [
    lambda path: path.write_bytes(b"no database" * 1000),
    lambda path: path.write_bytes(path.read_bytes()[:5000]),
], ids=["other bytes", "cut"])
def test_a_damaged_file_is_set_aside_under_another_name_and_said_once(tmp_path, caplog, spoil):
    file = new_file(tmp_path)
    file.keep([], [item(number, f"p{number}", {"1": {"class_type": "A" * 9000}})
                   for number in range(9)])
    file.close()
    spoil(file.path)
    assert left_queues(tmp_path) == [] and left_queues(tmp_path) == []
    [record] = caplog.records
    assert f"{file.path.stem}.damaged" in record.getMessage()
    assert os.listdir(tmp_path) == [f"{file.path.stem}.damaged"]


def test_a_file_that_cannot_be_opened_now_stays_for_the_next_start(tmp_path, caplog):
    """A disk that is full or read-only, or as here: this process has too many open files."""
    resource = pytest.importorskip("resource")
    file = new_file(tmp_path)
    file.keep([], [item(1, "a")])
    file.close()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most[1]))
    opened = []
    try:
        with contextlib.suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        os.close(opened.pop())  # for the list of the folder
        assert left_queues(tmp_path) == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
        for one in opened:
            os.close(one)
    [record] = caplog.records
    assert "stays for the next start: unable to open database file" in record.getMessage()
    [left] = left_queues(tmp_path)
    assert [one.prompt_id for one in left.prompts] == ["a"]


@pytest.mark.parametrize("damage", [
    "UPDATE prompt SET content = replace(hex(zeroblob(99999)), '00', '[')",
    "UPDATE prompt SET content = '[1, 2, 3]'", "UPDATE prompt SET content = NULL",
    """UPDATE prompt SET content = '[{"1": "no node"}, {}, []]'""",
    "UPDATE prompt SET number = 'first'", "UPDATE sample SET at = 'now'",
    "UPDATE sample SET rss_bytes = NULL", "ALTER TABLE sample RENAME COLUMN at TO moment"])
def test_a_file_with_rows_that_are_no_prompts_counts_as_damaged(tmp_path, caplog, damage):
    file = new_file(tmp_path)
    file.keep([], [item(1, "a")])
    file.note(Sample(7.0, "1", 100, 50))
    with file._base:
        file._base.execute(damage)
    file.close()
    assert left_queues(tmp_path) == [] and file.path.with_suffix(".damaged").exists()


def test_a_prompt_that_is_not_json_costs_no_other_prompt(tmp_path, caplog):
    file = new_file(tmp_path)
    file.keep([], [item(1, "a", {"1": {"inputs": {"x": object()}}}), item(2, "b")])
    assert [one.prompt_id for one in file.prompts()] == ["b"]
    assert "prompt a cannot be kept" in caplog.text
