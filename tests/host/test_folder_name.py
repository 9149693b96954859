"""The registry and the Manager install the pack as `headroom-nodes`: all of it works there too."""

import json
from pathlib import Path

import pytest
from support.everything import every_node

pytestmark = pytest.mark.host
NAME = "headroom-nodes"
NODES = json.loads((Path(__file__).parents[1] / "contract.json").read_text("utf-8"))


def test_in_a_folder_of_the_registry_s_name_nodes_routes_words_pages_and_templates_are_there(serve):
    server = serve(pack_name=NAME)
    client = server.client()
    prompt_id = client.run(every_node().prompt, timeout=300)["prompt_id"]
    assert client.get_json(f"/headroom/runs/{prompt_id}")["status"] == "success"
    assert f"/extensions/{NAME}/headroom.js" in client.get_json("/extensions")
    infos = client.get_json("/object_info")
    words = client.get_json("/i18n")["zh"]["nodeDefs"]
    for node in NODES:
        assert infos[node]["python_module"] == f"custom_nodes.{NAME}"
        assert client.get_bytes(f"/extensions/{NAME}/docs/{node}/zh.md")
        assert words[node]["display_name"]
    assert "start_here" in client.get_json("/workflow_templates")[NAME]
    assert "IMPORT FAILED" not in server.log_text()
