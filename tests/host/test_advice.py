"""Advice of a real server on the simulated GPU: applied, it saves what it said, pictures stay."""

import argparse
import json

import pytest
from support.rescue import pixels

from tools import advise
from tools.advice import applied, of
from tools.graph import Graph, add_checkpoint, add_sampler, forget_everything
from tools.table import run_table

pytestmark = pytest.mark.host
CAPACITY_MIB = 1536


@pytest.fixture
def gpu(sim):
    return sim(CAPACITY_MIB)


def picture():
    """Checkpoint to picture with core nodes only."""
    graph = Graph()
    model = add_checkpoint(graph, "checkpoints/headroom_test_sd15.safetensors")
    sampled = add_sampler(graph, model[0], model[1])
    image = graph.add("VAEDecode", samples=sampled, vae=model[2])
    graph.add("SaveImage", "save", images=image, filename_prefix="advice")
    return graph.prompt


def run(gpu, prompt):
    """The history entry and the record of a run on an empty device."""
    forget_everything(gpu.client)
    entry = gpu.client.run(prompt)
    return entry, gpu.client.get_json(f"/headroom/runs/{entry['prompt_id']}")


def test_followed_advice_saves_what_it_said_and_the_picture_stays(gpu):
    entry, record = run(gpu, picture())
    found = of(gpu.client, record["prompt_id"])
    same = [one for one in found if one["edit"] and not one["changes_picture"]]
    assert "encode_to_cpu" in {one["kind"] for one in same}
    wanted = of(gpu.client, record["prompt_id"], into_gib=0.001)
    low, high = [one for one in wanted if one["kind"] != "oom_guard"][-1]["expected_mib"]
    changed, after = run(gpu, applied(picture(), same))
    assert pixels(gpu.client, changed) == pixels(gpu.client, entry)
    assert low - 8 <= after["peak_vram_mib"] <= high + 8 < record["peak_vram_mib"]
    assert "oom_guard" in {one["kind"] for one in wanted}


def test_one_advice_that_was_followed_is_told_with_what_it_saved(gpu):
    _, record = run(gpu, picture())
    (one,) = [a for a in of(gpu.client, record["prompt_id"]) if a["kind"] == "encode_to_cpu"]
    assert one["measured_mib"] is None
    _, after = run(gpu, applied(picture(), [one]))
    (now,) = [a for a in of(gpu.client, record["prompt_id"]) if a["id"] == one["id"]]
    assert now["measured_mib"]["run"] == after["prompt_id"]
    saved = record["peak_vram_mib"] - after["peak_vram_mib"]
    assert now["measured_mib"]["mib"] == pytest.approx(saved)


def test_a_finished_run_says_the_smallest_gpu_that_it_would_have_fitted(gpu):
    _, record = run(gpu, picture())
    fits = record["fits"]
    low, high = fits["smallest_mib"]
    assert 0 < low < high == record["peak_vram_at_most_mib"]
    assert (fits["kind"], fits["at_least"], fits["cards_gib"][0]) == ("measured", False, 4)
    listed = gpu.client.get_json("/headroom/runs?limit=1")["runs"][0]
    assert listed["fits"] == fits
    assert run_table(record, {})


def test_memory_report_ends_with_what_to_change(gpu):
    prompt = picture()
    decoded = prompt["save"]["inputs"]["images"]
    prompt["report"] = {"class_type": "HeadroomMemoryReport", "inputs": {"value": decoded}}
    entry, _ = run(gpu, prompt)
    text = "\n".join(entry["outputs"]["report"]["text"])
    assert "What to change:\n\n1. " in text and "Encode to CPU" in text


def test_a_file_is_made_to_fit(gpu, tmp_path, capsys):
    file, out = tmp_path / "in.json", tmp_path / "out.json"
    file.write_text(json.dumps(picture()), encoding="utf-8")
    words = [str(file), "--into", "0.4", "--out", str(out), "--server", gpu.client.url]
    parser = argparse.ArgumentParser()
    advise.add_arguments(parser)
    forget_everything(gpu.client)
    assert advise.main(parser.parse_args(words)) == 0
    said = capsys.readouterr().out
    assert "Measured: " in said and "Expected: " in said
    _, after = run(gpu, json.loads(out.read_text(encoding="utf-8")))
    assert after["peak_vram_mib"] <= 0.4 * 1024
