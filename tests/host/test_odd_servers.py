"""Servers that are set up in unusual ways: several users, no place for one, the pack twice."""

import pytest
from support.prompts import node

from tools.server import PACK_ROOT

pytestmark = pytest.mark.host
PROMPT = {"1": node("PrimitiveStringMultiline", value="a"),
          "2": node("PreviewAny", source=["1", 0])}


def recorded(client):
    """The nodes in the record of a prompt that has just run."""
    prompt_id = client.run(PROMPT)["prompt_id"]
    return len(client.get_json(f"/headroom/runs/{prompt_id}")["nodes"])


def test_with_several_users_a_prompt_of_none_of_them_is_no_error_in_the_log(comfyui, start_server):
    server = start_server(comfyui, args=["--multi-user"])
    assert recorded(server.client()) == 2
    assert "User settings not found" not in server.log_text()


def test_where_the_folder_of_the_user_cannot_be_made_runs_are_recorded(
    comfyui, tmp_path, start_server
):
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "default").symlink_to(tmp_path / "nowhere")
    server = start_server(comfyui)
    assert recorded(server.client()) == 2
    assert "Traceback" not in server.log_text()


def test_installed_twice_one_copy_works_and_the_log_says_which_folder_can_go(
    comfyui, tmp_path, start_server
):
    (tmp_path / "custom_nodes").mkdir()
    (tmp_path / "custom_nodes" / "headroom_again").symlink_to(PACK_ROOT)
    server = start_server(comfyui)
    client = server.client()
    assert recorded(client) == recorded(client) == 2
    assert server.log_text().count("it is installed twice: the copy in ") == 1
