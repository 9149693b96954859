"""The bug report of a real server, after a prompt with private text in it."""

import json

import pytest
from support.prompts import sampling

pytestmark = pytest.mark.host
SECRET = "my grandmother in her garden"


def test_a_prompt_s_text_title_and_paths_are_not_in_the_bug_report_but_its_figures_are(cpu_server):
    client = cpu_server.client()
    prompt = sampling(seed=77)
    prompt["2"]["inputs"]["text"] = f"{SECRET}, /home/ann/private.png"
    prompt["2"]["_meta"] = {"title": SECRET}
    prompt_id = client.run(prompt)["prompt_id"]
    assert SECRET in json.dumps(client.get_json(f"/headroom/runs/{prompt_id}"))  # a title is there
    report = client.get_json("/headroom/bug-report")
    text = json.dumps(report)
    for private in (SECRET, "/home/ann", str(cpu_server.base_dir), str(cpu_server.comfyui),
                    "headroom_test_sd15"):
        assert private not in text, private
    assert report["runs"][0]["prompt_id"] == prompt_id
    assert {node["class_type"] for node in report["runs"][0]["nodes"]} >= {"KSampler", "VAEDecode"}
    assert report["versions"]["comfyui"] and "--cpu" in report["arguments"]
