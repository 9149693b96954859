"""The bundled workflow files, as files."""

import json
import re

import pytest
from PIL import Image
from support import workflow_layout
from support.cards import heading

from tools import bench_tables, figures, workflow_models, workflow_trials
from tools.workflows import API_FOLDER, ROOT, UI_FOLDER, WORKFLOWS, published_prompt, workflow

MODEL_INPUTS = {"ckpt_name", "unet_name", "vae_name", "control_net_name", "clip_name",
                "clip_name1", "clip_name2"}
WIDGETS = {"COMBO", "INT", "FLOAT", "BOOLEAN", "STRING"}
FOLDERS = {"checkpoints", "controlnet", "diffusion_models", "text_encoders", "vae"}
CONTRACT = json.loads((ROOT / "tests" / "contract.json").read_text(encoding="utf-8"))


def test_the_folders_hold_the_six_workflows_and_their_prompts_and_nothing_else():
    prompts = sorted(f"{name}.json" for name in WORKFLOWS)
    cards = [f"{name}.jpg" for name in WORKFLOWS]
    assert sorted(path.name for path in API_FOLDER.iterdir()) == prompts
    assert sorted(path.name for path in UI_FOLDER.iterdir()) == sorted(prompts + cards)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_has_a_square_card_for_the_templates(name):
    with Image.open(UI_FOLDER / f"{name}.jpg") as card:
        assert card.format == "JPEG" and card.width == card.height
        # Newer frontends lay a chip over the upper part of a card: nothing to read may be there.
        upper = card.convert("L").crop((0, 0, card.width, card.height // 5))
        dark, bright = upper.getextrema()
        assert bright - dark < 24
        assert card.info["comment"].decode() == heading(workflow(name))


def test_a_server_without_this_pack_is_told_its_name_in_the_registry():
    name = re.search('^name = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)[1]
    for path in [*UI_FOLDER.glob("*.json"), *(ROOT / "subgraphs").glob("*.json")]:
        data = json.loads(path.read_text("utf-8"))
        graphs = [data, *data.get("definitions", {}).get("subgraphs", [])]
        ours = [node for graph in graphs for node in graph["nodes"]
                if node["type"].startswith("Headroom")]
        assert ours and {node["properties"].get("cnr_id") for node in ours} == {name}, path


def test_start_here_has_every_node_that_needs_no_file_of_another_run():
    kinds = {node["class_type"] for node in published_prompt("start_here").values()}
    of_files = {"HeadroomSaveConditioning", "HeadroomLoadConditioning"}
    assert {kind for kind in kinds if kind.startswith("Headroom")} == set(CONTRACT) - of_files


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_widget_of_a_node_of_ours_has_its_value_on_the_canvas_and_in_the_prompt(name):
    prompt = published_prompt(name)
    for node in workflow(name)["nodes"]:
        if not node["type"].startswith("Headroom"):
            continue
        inputs = CONTRACT[node["type"]]["inputs"]
        given = prompt[str(node["id"])]["inputs"]
        widgets = [key for key, item in inputs.items()
                   if item["type"] in WIDGETS and not isinstance(given.get(key), list)]
        assert set(widgets) <= set(given) <= set(inputs), node["id"]
        assert node["widgets_values"] == [given[key] for key in widgets], node["id"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_only_a_title_of_its_own_is_in_the_file_so_that_each_language_names_the_other_nodes(name):
    for node in workflow(name)["nodes"]:
        usual = {node["type"], CONTRACT.get(node["type"], {}).get("display_name")}
        assert node.get("title", "its own") not in usual


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_model_file_that_a_loader_names_has_its_download(name):
    for node in workflow(name)["nodes"]:
        inputs = published_prompt(name).get(str(node["id"]), {}).get("inputs", {})
        wanted = {value for key, value in inputs.items() if key in MODEL_INPUTS}
        offered = node["properties"].get("models", [])
        assert {model["name"] for model in offered} == wanted
        for model in offered:
            assert model["directory"] in FOLDERS
            assert re.fullmatch(r"https://huggingface\.co/[^?]+/resolve/main/[^?]+", model["url"])
            assert model["url"].rpartition("/")[2] == model["name"]
            assert f"{model['directory']}/{model['name']}" in workflow_models.RECIPES


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
        text = (ROOT / page).read_text(encoding="utf-8")
        assert bench_tables.with_part(text, "workflows", figures.table(say)) == text


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_two_nodes_of_a_workflow_overlap_nor_cover_a_badge_and_each_lies_in_one_group(name):
    data = workflow(name)
    boxes = [workflow_layout.box(node) for node in data["nodes"]]
    for index, (left, top, right, bottom) in enumerate(boxes):
        for left2, top2, right2, bottom2 in boxes[:index]:
            assert (right < left2 or right2 < left or bottom + workflow_layout.BADGE < top2
                    or bottom2 + workflow_layout.BADGE < top)
        inside = [
            group["title"] for group in data["groups"]
            for x, y, width, height in [group["bounding"]]
            if x < left and y < top and right < x + width and bottom < y + height
        ]
        assert len(inside) == 1, (data["nodes"][index]["id"], inside)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_wire_runs_from_left_to_right_and_never_behind_a_node(name):
    data = workflow(name)
    links = {link[0]: link for link in data["links"]}
    for link, points in workflow_layout.wires(data).items():
        parts = list(zip(points, points[1:], strict=False))
        for number, (start, end) in enumerate(parts):
            assert end[0] - start[0] >= 20, (links[link], start, end)
            curve = workflow_layout.curve(start, end)
            for node in data["nodes"]:
                first = number == 0 and node["id"] == links[link][1]
                last = number == len(parts) - 1 and node["id"] == links[link][3]
                behind = workflow_layout.is_behind(curve, node, first, last)
                assert not behind, (links[link], node["id"])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_both_ends_of_every_wire_know_it_and_its_type(name):
    data = workflow(name)
    nodes = {node["id"]: node for node in data["nodes"]}
    known = {link[0] for link in data["links"]}
    assert len(known) == len(data["links"]) and max(known, default=0) == data["last_link_id"]
    for link, origin, output, target, slot, kind in data["links"]:
        assert link in nodes[origin]["outputs"][output]["links"]
        assert nodes[origin]["outputs"][output]["type"] == kind
        assert nodes[target]["inputs"][slot]["link"] == link
    held = [each["link"] for node in data["nodes"] for each in node["inputs"] if each["link"]]
    given = [link for node in data["nodes"] for out in node["outputs"] for link in out["links"]]
    assert sorted(held) == sorted(given) == sorted(known)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_reroute_carries_just_the_wires_that_lead_through_it(name):
    extra = workflow(name)["extra"]
    reroutes = {each["id"]: each for each in extra.get("reroutes", [])}
    carried = {key: set() for key in reroutes}
    for each in extra.get("linkExtensions", []):
        at = each["parentId"]
        while at is not None:
            carried[at].add(each["id"])
            at = reroutes[at].get("parentId")
    assert carried == {key: set(each["linkIds"]) for key, each in reroutes.items()}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_tables_and_charts_of_memory_are_wide_enough_to_read(name):
    data = workflow(name)
    nodes = {node["id"]: node for node in data["nodes"]}
    shown = [nodes[target] for _, origin, _, target, *_ in data["links"]
             if nodes[origin]["type"] == "HeadroomMemoryReport"
             and nodes[target]["type"].startswith("Preview")]
    assert shown and all(node["size"][0] >= 650 for node in shown)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_opens_on_its_note_below_the_tabs_at_a_size_that_can_be_read(name):
    data = workflow(name)
    view, note = data["extra"]["ds"], data["nodes"][0]
    left, top, right, bottom = workflow_layout.box(note)
    scale, (x, y) = view["scale"], view["offset"]
    assert scale >= 0.9
    assert 70 <= (left + x) * scale and (right + x) * scale <= 800
    assert 120 <= (top + y) * scale and (bottom + y) * scale <= 1000
    assert all((group["bounding"][1] + y) * scale >= 90 for group in data["groups"])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_trial_changes_only_the_named_values_and_the_text_encoder(name):
    published = published_prompt(name)
    trial = workflow_trials.small_prompt(name)
    named = {key.rpartition(".")[2] for key in workflow_trials.SMALLER[name]}
    for key, node in published.items():
        if trial[key]["class_type"] != node["class_type"]:
            assert node["class_type"].endswith("CLIPLoader")
            continue
        changed = {i for i, value in node["inputs"].items() if trial[key]["inputs"][i] != value}
        assert changed <= named | ({"clip"} if name == "onediff_mixed_sizes" else set())
