"""A ComfyUI on which no prompt can get a rerun: everything else stays as it is."""

import pytest
from support.prompts import node

from tools.server import PACK_ROOT

pytestmark = pytest.mark.host
MOVED = PACK_ROOT / "tests" / "host" / "packs" / "headroom_moved"


def test_where_reruns_are_lost_the_settings_of_the_browsers_user_still_count(serve):
    client = serve(packs=(MOVED,)).client()
    [lost] = client.get_json("/headroom/memory")["lost"]
    assert "validate_prompt" in lost["text"] and "is not run again" in lost["text"]
    assert client.get_json("/headroom/limit")["set_by"] == "default"
    assert client.request("POST", "/settings/Headroom.Server.VramLimit", "10")[0] == 200
    client.run({"1": node("PrimitiveStringMultiline", value="a"),
                "2": node("PreviewAny", source=["1", 0])})
    assert client.get_json("/headroom/limit")["set_by"] == "browser"
