"""Memory Report shows what the server recorded, as text, data and a picture."""

import io
import itertools
import json

import numpy as np
import pytest

pytestmark = pytest.mark.host
SALT = itertools.count(1)


def work(**inputs):
    return {"class_type": "TimedWork",
            "inputs": {"seconds": 0.05, "salt": next(SALT), **inputs}}


def report(**inputs):
    return {"class_type": "HeadroomMemoryReport", "inputs": inputs}


def text_of(entry, node_id):
    return "\n".join(entry["outputs"][node_id]["text"])


def test_data_is_the_record_that_http_gives(client):
    prompt = {"1": work(), "2": report(value=["1", 0]),
              "3": {"class_type": "PreviewAny", "inputs": {"source": ["2", 3]}}}
    entry = client.run(prompt)
    data = json.loads(text_of(entry, "3"))
    run = client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    assert data["prompt_id"] == run["prompt_id"] and data["status"] == "running"
    assert data["nodes"][0] == run["nodes"][0]
    # What several runs tell is no part of one run's record.
    assert set(data) | {"grows_over_runs"} == set(run)


def test_the_chart_is_an_image_that_save_image_saves(client):
    from PIL import Image

    entry = client.run({
        "1": work(), "2": report(value=["1", 0]),
        "3": {"class_type": "SaveImage",
              "inputs": {"images": ["2", 2], "filename_prefix": "chart"}},
    })
    saved = entry["outputs"]["3"]["images"][0]
    status, _, data = client.request(
        "GET", f"/view?filename={saved['filename']}&type=output&subfolder={saved['subfolder']}"
    )
    assert status == 200
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert pixels.shape == (640, 1200, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_the_value_goes_through_and_nothing_runs_again_unasked(client):
    prompt = {"1": work(), "2": report(value=["1", 0]), "3": work(value=["2", 0])}
    client.run(prompt)
    entry = client.run(prompt)
    run = client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    assert {node["node_id"] for node in run["nodes"] if node["cached"]} == {"1", "2", "3"}


def test_a_report_and_a_purge_with_nothing_connected_are_of_each_prompt(client):
    purge = {"class_type": "HeadroomPurgeVRAM", "inputs": {
        "unload": "no models", "only_below_free_mib": 0, "free_ram": False,
        "reset_node_cache": False, "run": "when inputs change"}}
    prompt = {"1": work(), "2": report(value=["1", 0]), "3": report(), "4": purge}
    client.run(prompt)
    run = client.get_json(f"/headroom/runs/{client.run(prompt)['prompt_id']}")
    assert {node["node_id"] for node in run["nodes"] if node["cached"]} == {"1", "2"}
