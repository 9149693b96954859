"""Fixtures of the tests of reruns."""

import pytest
from support.rescue_bench import Bench, FakeQueue

from headroom.rescue import kept_queue


@pytest.fixture
def bench():
    """A rescue, its host, and prompts that fail on it."""
    return Bench()


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A function that lets a server with this queue end, and gives the next one."""
    def kill(host, wish="keep", memory=(), next_host=None):
        server = kept_queue.KeptQueue(host, tmp_path, "keep")
        server.changed()
        for host.nodes, rss, room in memory:
            monkeypatch.setattr(kept_queue, "rss_bytes", lambda rss=rss: rss)
            monkeypatch.setattr(kept_queue, "ram_room_bytes", lambda room=room: room)
            server.look()
        server._file.close()  # as the system does
        return kept_queue.KeptQueue(next_host or FakeQueue(), tmp_path, wish)

    return kill
