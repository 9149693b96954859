"""The bundled workflow files, as files."""

import json
import re

import pytest
from PIL import Image

from devtools import bench_tables, draw, figures, workflow_trials
from devtools.workflows import WORKFLOWS

MODEL_INPUTS = {"ckpt_name", "unet_name", "vae_name", "control_net_name", "clip_name",
                "clip_name1", "clip_name2"}
FOLDERS = {"checkpoints", "controlnet", "diffusion_models", "text_encoders", "vae"}
CONTRACT = json.loads((draw.ROOT / "tests" / "contract.json").read_text(encoding="utf-8"))


def workflow(name):
    return json.loads((draw.UI_FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_folders_hold_the_six_workflows_and_their_prompts_and_nothing_else():
    prompts = sorted(f"{name}.json" for name in WORKFLOWS)
    cards = [f"{name}.jpg" for name in WORKFLOWS]
    assert sorted(path.name for path in draw.API_FOLDER.iterdir()) == prompts
    assert sorted(path.name for path in draw.UI_FOLDER.iterdir()) == sorted(prompts + cards)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_has_a_square_card_for_the_templates(name):
    with Image.open(draw.UI_FOLDER / f"{name}.jpg") as card:
        assert card.format == "JPEG" and card.width == card.height


def test_start_here_has_every_node_of_the_contract():
    kinds = {node["class_type"] for node in workflow_trials.published_prompt("start_here").values()}
    assert {kind for kind in kinds if kind.startswith("Headroom")} == set(CONTRACT)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_model_file_that_a_loader_names_has_its_download(name):
    for node in workflow(name)["nodes"]:
        inputs = workflow_trials.published_prompt(name).get(str(node["id"]), {}).get("inputs", {})
        wanted = {value for key, value in inputs.items() if key in MODEL_INPUTS}
        offered = node["properties"].get("models", [])
        assert {model["name"] for model in offered} == wanted
        for model in offered:
            assert model["directory"] in FOLDERS
            assert re.fullmatch(r"https://huggingface\.co/[^?]+/resolve/main/[^?]+", model["url"])
            assert model["url"].rpartition("/")[2] == model["name"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_note_says_the_problem_the_node_that_solves_it_and_how_to_use_it(name):
    first = workflow(name)["nodes"][0]
    assert first["type"] == "MarkdownNote"
    for part in ("**The problem.**", "**What solves it.**", "**How to use it.**"):
        assert part in first["widgets_values"][0]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_note_holds_the_figures_that_were_recorded(name):
    assert figures.note_text(name) in workflow(name)["nodes"][0]["widgets_values"][0]


def test_the_pages_hold_the_table_of_the_recorded_figures():
    for page, say in bench_tables.PAGES["workflows"].items():
        text = (draw.ROOT / page).read_text(encoding="utf-8")
        assert bench_tables.with_part(text, "workflows", figures.table(say)) == text


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_two_nodes_of_a_workflow_overlap_and_each_lies_in_a_group(name):
    data = workflow(name)
    boxes = [(*node["pos"], *node["size"]) for node in data["nodes"]]
    for index, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:index]:
            assert x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y
        assert any(
            left < x and top < y and x + w < left + width and y + h < top + height
            for left, top, width, height in (group["bounding"] for group in data["groups"])
        )


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_trial_changes_only_the_named_values_and_the_text_encoder(name):
    published = workflow_trials.published_prompt(name)
    trial = workflow_trials.small_prompt(name)
    named = {key.rpartition(".")[2] for key in workflow_trials.SMALLER[name]}
    for key, node in published.items():
        if trial[key]["class_type"] != node["class_type"]:
            assert node["class_type"].endswith("CLIPLoader")
            continue
        changed = {i for i, value in node["inputs"].items() if trial[key]["inputs"][i] != value}
        assert changed <= named | ({"clip"} if name == "onediff_mixed_sizes" else set())
