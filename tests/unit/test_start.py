"""The nodes are there, whatever fails when the rest of the pack starts."""

from pathlib import Path

import pytest

from headroom import start
from headroom.host import features


def test_an_error_while_comfyui_is_checked_costs_no_node(monkeypatch, caplog):
    def fails():
        raise ValueError("a function of another pack has no signature")

    monkeypatch.setattr(start, "is_in_comfyui", lambda: True)
    monkeypatch.setattr(features, "check", fails)
    start.start()
    assert "the nodes still work" in caplog.text


@pytest.mark.parametrize(("name", "is_told"), [
    ("headroom main", True), ("显存", True), ("head#room", True), ("headroom-main", False),
    ("headroom(1)", False),
])
def test_the_log_says_if_the_name_of_the_folder_costs_the_panel(caplog, name, is_told):
    start.tell_name_without_panel(Path("custom_nodes") / name)
    assert ("rename the folder" in caplog.text and name in caplog.text) == is_told
