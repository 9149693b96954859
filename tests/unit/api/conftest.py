"""Fixtures of the tests of routes and of what watches beside them."""

import pytest

from headroom.actions.spare_ram import Spared
from headroom.api import ram_watch as watch_module
from headroom.base.device import MIB


@pytest.fixture
def spared(monkeypatch):
    """Calls of spare_ram, with how much RAM there is."""
    state = {"room": 0, "swap": 0, "calls": 0, "count": 1}

    def spare(wanted_bytes, is_used):
        state["calls"] += 1
        return Spared(state["count"], 512 * MIB, "")

    monkeypatch.setattr(watch_module, "spare_ram", spare)
    monkeypatch.setattr(watch_module, "make_room", lambda wanted: iter(()))
    monkeypatch.setattr(watch_module, "ram_room_bytes", lambda: state["room"])
    monkeypatch.setattr(watch_module, "swap_room_bytes", lambda: state["swap"])
    return state
