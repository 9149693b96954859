"""A prompt without progress is reported after the set seconds."""

import pytest
from support.hosts import Host

from headroom.api import ready
from headroom.api.progress_watch import SETTING, VARIABLE, ProgressWatch
from headroom.host.types import NodeLabel

KSAMPLER = NodeLabel("3", "KSampler", "KSampler", "3")


def stuck(idle, server=None, browser=None):
    watch = ProgressWatch(lambda: idle, {} if server is None else {VARIABLE: server})
    watch.prompt_is_posted({} if browser is None else {SETTING: browser})
    return watch.stuck()


@pytest.mark.parametrize("server, browser, told", [
    (None, None, False), ("60", None, True), ("601", None, False), (None, 60, True),
    ("0", 60, False), ("60", 0, True), ("soon", 60, True), (None, "60", False), (None, -1, False),
])
def test_a_lack_of_progress_is_told_after_the_seconds_of_server_or_browser(server, browser, told):
    assert (stuck((600.4, KSAMPLER), server, browser) is not None) == told


def test_the_message_says_for_how_long_and_in_which_node():
    assert stuck((600.4, KSAMPLER), "60") == "no progress for 600 s in KSampler #3"
    assert stuck((600.4, None), "60") == "no progress for 600 s"
    assert stuck(None, "60") is None  # nothing runs


def test_a_server_without_progress_is_not_ready_however_much_is_free(monkeypatch):
    monkeypatch.setattr(ready, "current_host", lambda: Host(device="cuda:0", free_bytes=100))
    found = ready.readiness(0, (1, 0), stuck((600.4, KSAMPLER), "60"))
    assert found["ready"] is False
    assert found["reason"] == "no progress for 600 s in KSampler #3."


def test_a_server_on_the_cpu_is_not_ready_when_its_container_is_full(monkeypatch):
    """Whatever the machine, which ComfyUI counts, has left."""
    monkeypatch.setattr(ready, "current_host", lambda: Host(device="cpu", free_bytes=9 << 30))
    monkeypatch.setattr(ready, "ram_room_bytes", lambda: 1 << 20)
    found = ready.readiness(2, (0, 0), None)
    assert (found["ready"], found["free_mib"]) == (False, 1.0)
