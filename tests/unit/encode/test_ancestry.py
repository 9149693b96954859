"""The identity of an input's source: equal if and only if the same object would come out."""

import os

import pytest

from headroom.base.node_types import ClassInfo
from headroom.encode.ancestry import identify

CORE, CUSTOM = ClassInfo(), ClassInfo(code="pack code 1", is_core=False)


class Lookup:
    def __init__(self, folder, **classes):
        self.folder = folder
        self.classes = {"Load": CORE, "Lora": CORE, "Encode": CORE, "Text": CORE, **classes}

    def class_info(self, class_type):
        return self.classes.get(class_type)

    def node_type(self, class_type):
        return None

    def files_named(self, name):
        path = self.folder / name
        return [path] if path.is_file() else []


@pytest.fixture
def folder(tmp_path):
    for name in ("model.safetensors", "style.safetensors"):
        header = b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
        data = len(header).to_bytes(8, "little") + header + bytes(16)
        (tmp_path / name).write_bytes(data)
        os.utime(tmp_path / name, (1000, 1000))
    return tmp_path


def prompt(**changes):
    nodes = {
        "1": {"class_type": "Load", "inputs": {"name": "model.safetensors", "type": "sd"}},
        "2": {"class_type": "Lora", "inputs": {"clip": ["1", 1], "name": "style.safetensors",
                                               "strength": 0.8}},
        "3": {"class_type": "Encode", "inputs": {"clip": ["2", 0], "text": "a cat"}},
    }
    return {**nodes, **changes}


def identity(graph, lookup, node="3"):
    found = identify(graph, node, "clip", lookup)
    assert found.problem is None, found.problem
    return found.digest


def test_the_same_graph_has_the_same_identity_under_other_ids_and_beside_other_nodes(folder):
    lookup = Lookup(folder)
    renamed = {
        "x": prompt()["3"] | {"inputs": {"clip": ["y", 0], "text": "another text"}},
        "y": {"class_type": "Lora", "inputs": {"strength": 0.8, "name": "style.safetensors",
                                               "clip": ["z", 1]}},
        "z": prompt()["1"] | {"_meta": {"title": "My loader"}},
        "unrelated": {"class_type": "Nothing known", "inputs": {}},
    }
    assert identity(prompt(), lookup) == identity(renamed, lookup, "x")


@pytest.mark.parametrize("change", [
    {"1": {"class_type": "Load", "inputs": {"name": "model.safetensors", "type": "sdxl"}}},
    {"1": {"class_type": "Text", "inputs": {"name": "model.safetensors", "type": "sd"}}},
    {"1": {"class_type": "Load", "inputs": {"name": "style.safetensors", "type": "sd"}}},
    {"2": {"class_type": "Lora", "inputs": {"clip": ["1", 1], "name": "style.safetensors",
                                            "strength": 0.9}}},
    {"2": {"class_type": "Lora", "inputs": {"clip": ["1", 2], "name": "style.safetensors",
                                            "strength": 0.8}}},
    {"3": {"class_type": "Encode", "inputs": {"clip": ["2", 1], "text": "a cat"}}},
    {"3": {"class_type": "Encode", "inputs": {"clip": ["1", 1], "text": "a cat"}}},
], ids=["widget", "class", "file", "strength", "output", "own link", "one node less"])
def test_every_change_above_the_input_changes_the_identity(folder, change):
    lookup = Lookup(folder)
    assert identity(prompt(**change), lookup) != identity(prompt(), lookup)


def rewrite(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, (1000, 1000))


@pytest.mark.parametrize("change", [
    lambda path: path.write_bytes(path.read_bytes() + b"x"),
    lambda path: rewrite(path, at=20),
    lambda path: rewrite(path, at=-1),
], ids=["size", "header with size and time kept", "data with size and time kept"])
def test_a_changed_file_changes_the_identity(folder, change):
    lookup = Lookup(folder)
    before = identity(prompt(), lookup)
    change(folder / "model.safetensors")
    assert identity(prompt(), lookup) != before


def test_a_file_keeps_its_identity_in_another_folder_and_at_another_time(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    assert identity(prompt(), Lookup(folder)) == identity(prompt(), Lookup(other))


def test_a_custom_class_is_known_by_its_code(folder):
    first = Lookup(folder, Load=CUSTOM)
    second = Lookup(folder, Load=ClassInfo(code="pack code 2", is_core=False))
    assert identity(prompt(), first) != identity(prompt(), second)


def test_a_class_that_wants_its_id_is_known_by_it(folder):
    lookup = Lookup(folder, Load=ClassInfo(wants_id=True))
    moved = {**prompt(), "9": prompt()["1"]}
    moved["2"] = {**moved["2"], "inputs": {**moved["2"]["inputs"], "clip": ["9", 1]}}
    assert identity(prompt(), lookup) != identity(moved, lookup)


@pytest.mark.parametrize(("change", "classes", "text"), [
    ({"1": {"class_type": "Gone", "inputs": {}}}, {}, "the node class Gone is not installed"),
    ({"1": {"class_type": "Load", "inputs": {"name": object()}}}, {}, "cannot be followed"),
    ({"1": {"class_type": "Load", "inputs": {"name": "gone.safetensors"}}}, {},
     r"node 1 \(Load\) names no file, or one that is in no models folder"),
    ({"1": {"class_type": "Load", "inputs": {"options": {"files": ["x.gguf"]}}}}, {},
     "one that is in no models folder"),
    ({}, {"Load": ClassInfo(own_changes=True)}, r"the result of node 1 \(Load\) may differ"),
    ({}, {"Lora": ClassInfo(is_new_code=True)}, r"the result of node 2 \(Lora\) may differ"),
    ({}, {"Lora": ClassInfo(repeatable=False)}, "differ from run to run"),
    ({"1": {"class_type": "Load", "inputs": {"repo": "google/t5"}}}, {"Load": CUSTOM},
     "names no file"),
    ({"2": {"class_type": "Lora", "inputs": {"clip": ["99", 0]}}}, {}, "node 99 is not there"),
    ({"3": {"class_type": "Encode", "inputs": {"clip": None}}}, {}, "nothing is connected"),
])
def test_an_input_without_identity_says_why(folder, change, classes, text):
    found = identify(prompt(**change), "3", "clip", Lookup(folder, **classes))
    with pytest.raises(ValueError, match=text):
        raise ValueError(found.problem)


def test_a_node_that_decides_its_own_changes_is_known_by_its_mark(folder):
    lookup = Lookup(folder, Load=ClassInfo(own_changes=True))

    def marked(mark):
        return prompt(**{"1": {**prompt()["1"], "is_changed": mark}})

    assert identity(marked(["a"]), lookup) == identity(marked(["a"]), lookup)
    assert identity(marked(["a"]), lookup) != identity(marked(["b"]), lookup)
    problem = identify(marked([float("nan")]), "3", "clip", lookup).problem
    assert problem == "the result of node 1 (Load) may differ from run to run"


def test_a_custom_loader_with_a_file_and_custom_nodes_behind_it_are_fine(folder):
    identity(prompt(), Lookup(folder, Load=CUSTOM, Lora=CUSTOM))


def test_a_dynamic_prompt_serves_as_well_as_a_dict(folder):
    class DynamicPrompt:
        def get_node(self, node_id):
            return prompt()[node_id]

        def all_node_ids(self):
            return set(prompt())

    lookup = Lookup(folder)
    assert identify(DynamicPrompt(), "3", "clip", lookup) == identify(prompt(), "3", "clip", lookup)


def test_a_chain_of_thousands_of_nodes_does_not_exhaust_the_stack(folder):
    chain = {str(i): {"class_type": "Lora", "inputs": {"clip": [str(i + 1), 0]}}
             for i in range(3000)}
    chain["3000"] = prompt()["1"]
    chain["end"] = {"class_type": "Encode", "inputs": {"clip": ["0", 0]}}
    assert identity(chain, Lookup(folder), "end")
