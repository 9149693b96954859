"""Fixtures of the tests of a door, which are skipped where Ray Serve is not installed."""

import pytest

from fake_comfy import FakeComfy
from tools.waiting import wait_until


@pytest.fixture
def servers():
    made = []

    def make(*sizes):
        made.extend(FakeComfy(mib) for mib in sizes)
        return made[-len(sizes):]

    yield make
    for server in made:
        server.silent.clear()
        server.stop()


@pytest.fixture
def opened(tmp_path, monkeypatch):
    from support.doors import OpenDoor

    monkeypatch.setattr("farm.seat.HEARD_SECONDS", 60)  # events are counted
    doors = []

    def open_door(*comfies, names=None, waits=True, **options):
        doors.append(OpenDoor(tmp_path, names or [one.url for one in comfies], **options))
        if waits:
            wait_until(lambda: set(doors[-1].states()) == {"idle"})
        return doors[-1]

    yield open_door
    for door in doors:
        door.close()
