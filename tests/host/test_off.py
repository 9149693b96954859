"""HEADROOM_OFF=1, or its setting: the pack is eleven nodes and nothing else in the server."""

import itertools
import json

import pytest
from support.prompts import node

from tools.client import Client
from tools.graph import PURGE_DEFAULTS
from tools.server import PACK_ROOT

pytestmark = pytest.mark.host
BESIDE = PACK_ROOT / "tests" / "host" / "packs" / "headroom_beside"
PROMPT = {
    "1": node("PrimitiveStringMultiline", value="a"),
    "2": node("HeadroomPurgeVRAM", value=["1", 0], **PURGE_DEFAULTS),
    "3": node("HeadroomMemoryReport", value=["2", 0]),
}


@pytest.fixture
def started(comfyui, tmp_path, start_server):
    """A function that starts a server with the settings of its only user, and gives its client."""
    numbers = itertools.count()

    def start(settings=None, **options) -> Client:
        base = tmp_path / str(next(numbers))
        if settings is not None:
            (base / "user" / "default").mkdir(parents=True)
            file = base / "user" / "default" / "comfy.settings.json"
            file.write_text(json.dumps(settings), encoding="utf-8")
        return start_server(comfyui, base, packs=[BESIDE], **options).client()

    return start


def beside(client, prompt=None):
    if prompt is not None:
        assert client.run(prompt)["status"]["status_str"] == "success"
    return client.get_json("/headroom_beside")


def test_turned_off_a_server_runs_what_it_runs_without_the_pack_and_turned_on_it_runs_more(started):
    shown = {"1": PROMPT["1"], "2": node("PreviewAny", source=["1", 0])}
    without = beside(started(pack=None), shown)
    by_variable = started(env={"HEADROOM_OFF": "1"})
    by_setting = started(settings={"Headroom.Server.Off": True})
    assert beside(by_variable, PROMPT) == without
    assert beside(by_setting, PROMPT) == without
    assert len([name for name in by_setting.get_json("/object_info") if "Headroom" in name]) == 11
    assert by_setting.get("/headroom/memory")[0] == 404
    scripts = [path for path in by_variable.get_json("/extensions") if "/headroom/" in path]
    assert scripts == []  # so no panel, no badges
    assert any("/headroom/" in path for path in by_setting.get_json("/extensions"))  # to undo it
    on = beside(started(settings={"Headroom.Server.Off": True}, env={"HEADROOM_OFF": "0"}), PROMPT)
    assert [what for what in without if on[what] == without[what]] == []  # the variable wins
