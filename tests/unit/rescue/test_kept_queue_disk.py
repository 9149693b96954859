"""The file of a kept queue: a full disk, servers that start at once, a file that stays."""

import sqlite3
from pathlib import Path

import pytest
from support.rescue_bench import FakeQueue, item

from headroom.rescue import kept_queue as module
from headroom.rescue.kept_queue import KeptQueue
from headroom.rescue.left_queues import left_queues
from headroom.rescue.queue_file import QueueFile, new_file


def test_of_servers_that_start_at_once_each_has_its_file(tmp_path, monkeypatch):
    """One looks for what was left while the other has made its file and not locked it yet."""
    servers = []

    def not_locked_yet(folder):
        path = folder / "mine.sqlite"
        folder.mkdir(exist_ok=True)
        path.write_bytes(b"")
        monkeypatch.setattr(module, "new_file", new_file)
        servers.append(KeptQueue(FakeQueue(), folder, "keep"))
        assert path.exists()
        return QueueFile(path)

    monkeypatch.setattr(module, "new_file", not_locked_yet)
    servers.append(KeptQueue(FakeQueue(), tmp_path, "keep"))
    assert all(one._file is not None for one in servers) and len(servers) == 2


def full(*_):
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("is_full_at_start", [True, False])
def test_a_queue_that_a_full_disk_cannot_take_over_stays_in_the_file_of_the_ended_server(
    killed, tmp_path, monkeypatch, is_full_at_start
):
    killed(FakeQueue([], [item(1, "a"), item(2, "b")]))._left[0].file.close()
    with monkeypatch.context() as disk:
        if is_full_at_start:
            disk.setattr(module, "new_file", full)
        server = KeptQueue(FakeQueue(), tmp_path, "keep")
        if not is_full_at_start:
            disk.setattr(server._file, "keep", full)
        assert server.queue_again()["queued"] == ["a", "b"]
    assert server.left()["prompts"] == []  # nobody queues it twice
    server._left[0].file.close()  # it is killed as well
    [left] = left_queues(tmp_path)
    assert [one.prompt_id for one in left.prompts] == ["a", "b"]


def test_a_disk_that_is_full_only_at_the_start_costs_no_queue(tmp_path, monkeypatch):
    with monkeypatch.context() as disk:
        disk.setattr(module, "new_file", full)
        server = KeptQueue(FakeQueue([], [item(1, "a")]), tmp_path, "keep")
        server.changed()
    server.changed()
    assert [one.prompt_id for one in server._file.prompts()] == ["a"]


def test_as_soon_as_the_disk_has_room_again_what_was_taken_over_is_in_one_file(
    killed, tmp_path, monkeypatch
):
    host = FakeQueue()
    server = killed(FakeQueue([], [item(1, "a"), item(2, "b")]), next_host=host)
    with monkeypatch.context() as disk:
        disk.setattr(server._file, "keep", full)
        server.queue_again()
    host.waiting.pop(0)
    server.changed()
    assert [file.name for file in tmp_path.glob("*.sqlite")] == [server._file.path.name]
    assert [one.prompt_id for one in server._file.prompts()] == ["b"]


def test_a_file_that_windows_does_not_delete_is_queued_once_and_costs_the_next_server_nothing(
    killed, tmp_path, monkeypatch
):
    def is_read(*_, **__):
        raise PermissionError(13, "another program reads it")

    host = FakeQueue()
    server = killed(FakeQueue([], [item(1, "a")]), next_host=host)
    monkeypatch.setattr(Path, "unlink", is_read)
    assert server.queue_again()["queued"] == ["a"] and server.left()["prompts"] == []
    host.waiting.clear()
    server.changed()
    server._file.close()
    after = KeptQueue(FakeQueue(), tmp_path, "keep")
    assert after._file is not None and after.left()["prompts"] == []


def test_a_disk_that_fails_is_one_warning_with_the_folder_and_the_queue_goes_on(
    tmp_path, caplog, monkeypatch
):
    host = FakeQueue([], [item(1, "a")])
    server = KeptQueue(host, tmp_path, "keep")
    monkeypatch.setattr(server._file, "keep", full)
    server.changed()
    server.changed()
    [record] = caplog.records
    assert f"not kept in a file in {tmp_path} " in record.getMessage()
    assert "disk is full" in record.getMessage()


def test_after_a_disk_that_was_full_for_a_while_only_what_has_not_ended_is_left(
    tmp_path, monkeypatch
):
    """And no other server takes over a file of one that runs."""
    host = FakeQueue([], [item(1, "a"), item(2, "b")])
    server = KeptQueue(host, tmp_path, "keep")
    server.changed()
    with monkeypatch.context() as disk:
        disk.setattr(server._file, "keep", full)
        host.waiting = [item(2, "b"), item(3, "c")]
        server.changed()
        assert KeptQueue(FakeQueue(), tmp_path, "keep").left()["prompts"] == []
    server.changed()
    server._file.close()
    left = KeptQueue(FakeQueue(), tmp_path, "keep").left()["prompts"]
    assert [one["prompt_id"] for one in left] == ["b", "c"]
