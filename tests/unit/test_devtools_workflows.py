"""From a workflow of the canvas to a prompt, with values changed on the way."""

import argparse
import json

import pytest

from devtools import run, settings, ui_prompt
from devtools.canvas import Canvas
from devtools.client import PromptInvalid
from devtools.errors import DevError
from devtools.node_info import node_infos

OBJECT_INFO = {
    "Load": {"input": {"required": {"name": [["a", "b"]]}}, "output": ["MODEL"]},
    "Picture": {"input": {"required": {"image": [["x.png"], {"image_upload": True}]}},
                "output": ["IMAGE"]},
    "Sample": {
        "input": {
            "required": {"model": ["MODEL"], "seed": ["INT", {"default": 0}],
                         "steps": ["INT", {"default": 20}]},
            "optional": {"image": ["IMAGE"], "text": ["STRING", {"forceInput": True}],
                         "mode": ["COMBO", {"options": ["fast", "slow"]}]},
        },
        "output": ["LATENT", "MODEL"], "output_name": ["latent", "model"],
        "display_name": "Sampler",
    },
    "Save": {"input": {"required": {"latent": ["LATENT"], "name": ["STRING", {"default": "out"}]}},
             "output": []},
}
INFOS = node_infos(OBJECT_INFO)


def drawn():
    canvas = Canvas("example", INFOS)
    with canvas.group("All"):
        canvas.note("Hello")
        model = canvas.add("Load", name="b")
        image = canvas.add("Picture", image="x.png")
        sample = canvas.add("Sample", "Sample it", model=model, image=image, seed=5, mode="slow")
        canvas.add("Save", latent=sample)
    return canvas


def node_of(workflow, kind):
    return next(node for node in workflow["nodes"] if node["type"] == kind)


def test_a_drawn_workflow_converts_to_the_prompt_drawn_with_it():
    canvas = drawn()
    assert ui_prompt.api_prompt(canvas.ui(), INFOS) == canvas.prompt()
    assert canvas.prompt()["4"] == {
        "inputs": {"seed": 5, "steps": 20, "mode": "slow", "model": ["2", 0], "image": ["3", 0]},
        "class_type": "Sample",
        "_meta": {"title": "Sample it"},
    }


def test_what_stands_between_the_values_of_widgets_is_not_taken_for_one():
    sample = node_of(drawn().ui(), "Sample")
    assert sample["widgets_values"] == [5, "fixed", 20, "slow"]
    assert node_of(drawn().ui(), "Picture")["widgets_values"] == ["x.png", "image"]


def test_every_node_of_a_drawing_has_its_own_place_inside_its_group():
    workflow = drawn().ui()
    (frame,) = workflow["groups"]
    left, top, width, height = frame["bounding"]
    bottom = top
    for node in workflow["nodes"]:
        (x, y), (w, h) = node["pos"], node["size"]
        assert left < x and x + w < left + width and y > bottom
        bottom = y + h
    assert bottom < top + height


def test_links_of_either_form_are_read():
    canvas = drawn()
    workflow = canvas.ui()
    names = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
    workflow["links"] = [dict(zip(names, link, strict=True)) for link in workflow["links"]]
    assert ui_prompt.api_prompt(workflow, INFOS) == canvas.prompt()


def test_a_muted_node_is_left_out_and_its_wires_too():
    workflow = drawn().ui()
    node_of(workflow, "Picture")["mode"] = ui_prompt.MUTED
    prompt = ui_prompt.api_prompt(workflow, INFOS)
    assert "3" not in prompt and "image" not in prompt["4"]["inputs"]


def test_a_bypassed_node_passes_on_what_has_the_type_of_its_output():
    workflow = drawn().ui()
    node_of(workflow, "Sample")["mode"] = ui_prompt.BYPASSED
    node_of(workflow, "Sample")["outputs"][0]["type"] = "IMAGE"
    assert ui_prompt.api_prompt(workflow, INFOS)["5"]["inputs"]["latent"] == ["3", 0]


def test_a_bypassed_node_without_a_matching_input_passes_nothing_on():
    workflow = drawn().ui()
    node_of(workflow, "Sample")["mode"] = ui_prompt.BYPASSED
    assert "latent" not in ui_prompt.api_prompt(workflow, INFOS)["5"]["inputs"]


def test_reroutes_and_primitives_are_resolved():
    workflow = drawn().ui()
    load, sample = node_of(workflow, "Load"), node_of(workflow, "Sample")
    workflow["nodes"] += [
        {"id": 90, "type": "Reroute", "inputs": [{"name": "", "type": "*", "link": 91}],
         "outputs": [{"name": "", "type": "MODEL", "links": [92]}]},
        {"id": 93, "type": "PrimitiveNode", "widgets_values": [77, "fixed"],
         "outputs": [{"name": "INT", "type": "INT", "links": [94]}]},
    ]
    workflow["links"] += [[91, load["id"], 0, 90, 0, "MODEL"],
                          [92, 90, 0, sample["id"], 0, "MODEL"],
                          [94, 93, 0, sample["id"], 3, "INT"]]
    sample["inputs"][0]["link"] = 92
    sample["inputs"].append({"name": "seed", "type": "INT", "widget": {"name": "seed"}, "link": 94})
    inputs = ui_prompt.api_prompt(workflow, INFOS)["4"]["inputs"]
    assert (inputs["model"], inputs["seed"]) == (["2", 0], 77)


def test_widget_values_by_name_and_those_a_newer_node_has_gained_are_filled_in():
    workflow = drawn().ui()
    node_of(workflow, "Sample")["widgets_values"] = {"seed": 1, "steps": 2, "mode": "fast"}
    assert ui_prompt.api_prompt(workflow, INFOS)["4"]["inputs"]["steps"] == 2
    node_of(workflow, "Sample")["widgets_values"] = [9, "fixed"]
    assert ui_prompt.api_prompt(workflow, INFOS)["4"]["inputs"]["steps"] == 20


def test_a_node_that_the_server_lacks_is_named():
    with pytest.raises(DevError, match=r"no node 'Save' \(node 5 of the workflow\)"):
        ui_prompt.api_prompt(drawn().ui(), {k: v for k, v in INFOS.items() if k != "Save"})


def test_a_subgraph_is_refused_with_the_way_out():
    workflow = drawn().ui()
    workflow["definitions"] = {"subgraphs": [{"id": "abc"}]}
    node_of(workflow, "Load")["type"] = "abc"
    with pytest.raises(DevError, match=r"Export \(API\)"):
        ui_prompt.api_prompt(workflow, INFOS)


def test_a_node_whose_inputs_depend_on_its_values_is_refused_with_the_way_out():
    infos = node_infos({**OBJECT_INFO, "Save": {"input": {"required": {
        "latent": ["LATENT"], "format": ["COMFY_DYNAMICCOMBO_V3", {}]}}, "output": []}})
    with pytest.raises(DevError, match=r"Node 5 \(Save\) .* Export \(API\)"):
        ui_prompt.api_prompt(drawn().ui(), infos)


# -- changing values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "setting"),
    [("3.steps=20", ("3.steps", 20)), ("a.b=true", ("a.b", True)), ("a.b=x=y", ("a.b", "x=y")),
     ("My. node.name=out", ("My. node.name", "out")), ('a.b="20"', ("a.b", "20"))],
)
def test_a_setting_is_json_or_text(text, setting):
    assert settings.parse_setting(text) == setting


@pytest.mark.parametrize("text", ["steps=20", "3.steps", ""])
def test_a_malformed_setting_is_explained(text):
    with pytest.raises(DevError, match="NODE.INPUT=VALUE"):
        settings.parse_setting(text)


@pytest.mark.parametrize("key", ["4.steps", "Sample it.steps", "Sample.steps"])
def test_a_node_is_found_by_id_title_or_class_and_the_original_stays(key):
    prompt = drawn().prompt()
    assert settings.with_settings(prompt, {key: 3})["4"]["inputs"]["steps"] == 3
    assert prompt["4"]["inputs"]["steps"] == 20


def test_a_setting_for_nothing_is_refused_with_what_there_is():
    with pytest.raises(DevError, match="4 Sample it"):
        settings.with_settings(drawn().prompt(), {"KSampler.steps": 3})
    with pytest.raises(DevError, match="no input 'cfg'; it has seed, steps, mode, model, image"):
        settings.with_settings(drawn().prompt(), {"4.cfg": 3})


# -- running ----------------------------------------------------------------------------------


class FakeServer:
    """Answers as a server without websocket does; the run ends at the third look."""

    def __init__(self, failed=False):
        self.looks, self.failed, self.queued = 0, failed, None

    def get_json(self, path):
        assert path == "/object_info"
        return OBJECT_INFO

    def events(self):
        raise ImportError("no websocket")

    def queue(self, prompt, client_id=None):
        self.queued = prompt
        return "id-1"

    def history(self, prompt_id):
        self.looks += 1
        return self.wait(prompt_id) if self.looks > 2 else None

    def wait(self, prompt_id, timeout=0):
        error = ["execution_error", {"node_id": "4", "node_type": "Sample",
                                     "exception_type": "OutOfMemoryError",
                                     "exception_message": "Allocation on device"}]
        status = {"status_str": "error" if self.failed else "success",
                  "messages": [error] if self.failed else []}
        images = {"images": [{"filename": "a.png", "subfolder": "s", "type": "output"}]}
        return {"status": status, "outputs": {"4": {"text": ["4 MiB freed"]}, "5": images}}

    def get(self, path):
        node = {"node_id": "4", "class_type": "Sample", "title": "Sample it", "seconds": 1.5,
                "cached": False, "vram_before_mib": 1.0, "vram_after_mib": 2.0,
                "peak_vram_mib": 3.0}
        return 200, {"nodes": [node], "seconds": 2.0, "peak_vram_mib": 3.0}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(run, "POLL_SECONDS", 0)


def started(monkeypatch, tmp_path, server, *words):
    monkeypatch.setattr(run, "Client", lambda url: server)
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(drawn().ui()), encoding="utf-8")
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return run.main(parser.parse_args([str(file), *words]))


def test_a_run_prints_reports_files_and_the_memory_table(monkeypatch, tmp_path, capsys, quick):
    server = FakeServer()
    assert started(monkeypatch, tmp_path, server, "--set", "4.steps=2") == 0
    assert server.queued["4"]["inputs"]["steps"] == 2
    shown = capsys.readouterr().out
    assert "Sample it (4):\n4 MiB freed" in shown and "Saved: s/a.png" in shown
    assert "VRAM before" in shown and "[########################] 4/4 done" in shown


def test_a_failed_run_ends_with_the_error_and_a_status(monkeypatch, tmp_path, capsys, quick):
    assert started(monkeypatch, tmp_path, FakeServer(failed=True)) == 1
    shown = capsys.readouterr()
    assert "Node 4 (Sample) failed with OutOfMemoryError: Allocation on device" in shown.err
    assert "VRAM before" in shown.out and "done" not in shown.out


def test_a_refused_prompt_says_which_node_and_why(monkeypatch, tmp_path, quick):
    server = FakeServer()
    details = {"error": {"message": "Prompt outputs failed validation"}, "node_errors": {
        "2": {"class_type": "Load", "errors": [
            {"message": "Value not in list", "details": "name: 'b' not in ['a']"}]}}}

    def refuse(prompt, client_id=None):
        raise PromptInvalid(400, details)

    server.queue = refuse
    with pytest.raises(DevError, match=r"node 2 \(Load\): Value not in list: name: 'b' not in"):
        started(monkeypatch, tmp_path, server)


def test_a_server_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(drawn().ui()), encoding="utf-8")
    args = argparse.Namespace(file=file, server="http://127.0.0.1:9", settings=[], timeout=1)
    with pytest.raises(DevError, match="No server answers at http://127.0.0.1:9"):
        run.main(args)


@pytest.mark.parametrize(
    ("content", "words"),
    [("[1, 2]", "neither a workflow"), ("{", "is not JSON"), ('{"a": 1}', "neither a workflow")],
)
def test_a_file_that_is_no_workflow_is_explained(tmp_path, content, words):
    file = tmp_path / "other.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DevError, match=words):
        run.read_prompt(file, FakeServer())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DevError, match="gone.json cannot be read"):
        run.read_prompt(tmp_path / "gone.json", FakeServer())
