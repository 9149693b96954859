"""The nodes are there, whatever fails when the rest of the pack starts."""

from headroom import start
from headroom.host import features


def test_an_error_while_comfyui_is_checked_costs_no_node(monkeypatch, caplog):
    def fails():
        raise ValueError("a function of another pack has no signature")

    monkeypatch.setattr(start, "is_in_comfyui", lambda: True)
    monkeypatch.setattr(features, "check", fails)
    start.start()
    assert "the nodes still work" in caplog.text
