"""The input of a farm: prompts, their keys and kinds, and the servers."""

import io
import json
import uuid

import pytest

from farm import prompts
from farm.keys import key_of, kind_of, models_of, prompt_id_of
from farm.servers import read_servers
from farm.words import FarmError


def prompt(**inputs):
    return {"1": {"class_type": "Fake", "inputs": inputs}}


GENERATOR = """
def prompts():
    for seed in (5, 6):
        yield {"1": {"class_type": "Fake", "inputs": {"seed": seed}}}
"""


def written(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return str(path)


def test_the_key_is_of_the_content_whatever_the_order_and_the_titles():
    one = {"1": {"class_type": "A", "inputs": {"x": 1, "y": 2}},
           "2": {"class_type": "B", "inputs": {}}}
    two = {"2": {"inputs": {}, "class_type": "B", "_meta": {"title": "Mine"}},
           "1": {"class_type": "A", "inputs": {"y": 2, "x": 1}}}
    assert key_of(one, {}) == key_of(two, {})
    assert key_of(one, {}) != key_of(prompt(x=1), {})
    assert key_of(one, {}) != key_of(one, {"headroom": {"guard": True}})


def test_ids_are_canonical_and_the_same_after_a_restart_and_others_elsewhere():
    found = prompt_id_of("key", "a", 0)
    assert found == str(uuid.UUID(found)) == prompt_id_of("key", "a", 0)
    assert len({found, prompt_id_of("key", "b", 0), prompt_id_of("key", "a", 1)}) == 3


def test_a_kind_leaves_out_seeds_and_texts_but_not_sizes_models_and_wires():
    base = dict(width=512, seed=1, text="a cat", ckpt_name="sd15.safetensors", model=["4", 0])
    kind = kind_of(prompt(**base))
    assert kind == kind_of(prompt(**{**base, "seed": 2, "text": "a dog on a mat"}))
    for name, value in (("width", 768), ("ckpt_name", "my model xl.safetensors"),
                        ("model", ["5", 0]), ("weight_dtype", "fp8_e4m3fn")):
        assert kind != kind_of(prompt(**{**base, name: value})), name


def test_a_very_long_text_makes_no_kind_of_its_own():
    assert kind_of(prompt(t="x" * 1000)) == kind_of(prompt(t="y" * 1000))


def test_the_models_of_a_prompt_are_the_files_of_weights_it_names():
    assert models_of(prompt(a="x/sd.safetensors", b="lora.SFT", c="picture.png", d=3)) == {
        "x/sd.safetensors", "lora.SFT"}


def test_prompts_come_from_files_lists_lines_folders_and_generators(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder / "b.jsonl", f"{json.dumps(prompt(seed=3))}\n\n{json.dumps(prompt(seed=4))}\n")
    written(folder / "a.json", {"prompt": prompt(seed=2), "extra_data": {"x": 1}})
    written(folder / "note.txt", "not a prompt")
    one = written(tmp_path / "one.json", prompt(seed=0))
    several = written(tmp_path / "several.json", [prompt(seed=1)])
    made = written(tmp_path / "made.py", GENERATOR)
    found = list(prompts.read_all([one, several, str(folder), made]))
    assert [asked.prompt["1"]["inputs"]["seed"] for asked in found] == [0, 1, 2, 3, 4, 5, 6]
    assert found[2].extra_data == {"x": 1}
    assert found[4].name.endswith("b.jsonl:3")


def test_a_generator_may_change_one_prompt_and_yield_it_again(tmp_path):
    made = written(tmp_path / "made.py", """
def prompts():
    one = {"1": {"class_type": "Fake", "inputs": {}}}
    for seed in (5, 6):
        one["1"]["inputs"]["seed"] = seed
        yield one
""")
    found = list(prompts.read_all([made]))
    assert [asked.prompt["1"]["inputs"]["seed"] for asked in found] == [5, 6]
    assert [asked.key for asked in found] == [key_of(prompt(seed=n), {}) for n in (5, 6)]


def test_a_node_that_is_called_prompt_makes_no_body(tmp_path):
    node = {"class_type": "Fake", "inputs": {}}
    [asked] = prompts.read_all([written(tmp_path / "p.json", {"prompt": node})])
    assert asked.prompt == {"prompt": node}


def test_all_files_are_checked_and_counted_once_before_the_first_prompt_runs(tmp_path, monkeypatch):
    one = written(tmp_path / "one.json", [prompt(seed=0), prompt(seed=1), prompt(seed=0)])
    assert prompts.count([one]) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(prompt(seed=9))))
    assert prompts.count([one, "-"]) is None
    assert len(list(prompts.read_all([one, "-"]))) == 4  # standard input was not used up


@pytest.mark.parametrize("name, data, says", [
    ("p.json", "{", "is not JSON"),
    ("p.json", "[" * 100_000, "is not JSON"),
    ("p.jsonl", '{"1"\n', "p.jsonl:1 is not JSON: Expecting"),
    ("p.json", "{}", "expected to be a prompt in API format, but is none"),
    ("p.json", "3", "expected to be a prompt in API format"),
    ("p.json", '{"nodes": [], "links": []}', "is a workflow of the canvas; save it in ComfyUI"),
    ("p.json", '{"1": {"class_type": "A"}}', "expected to be a prompt"),
    ("p.json", json.dumps({"prompt": prompt(), "extra_data": [1]}), "extra_data"),
    ("p.json", json.dumps({"prompt": prompt(), "extra_data": {"headroom": 1}}), "extra_data"),
    ("p.py", "x = 1", "expected to have a function `prompts`"),
    ("p.py", "def prompts(:", "line 1: SyntaxError"),
    ("p.py", "import nothing_of_that_name", "line 1: ModuleNotFoundError: No module named"),
    ("p.py", "def prompts():\n    raise KeyError('x')\n    yield", "line 2: KeyError: 'x'"),
    ("p.py", "def prompts():\n    return None", "that yields prompts, but none came"),
    ("p.py", "def prompts():\n    yield {1, 2}", "#0 is not JSON"),
    ("p.py", "def prompts():\n    yield float('nan')", "#0 is not JSON"),
])
def test_a_bad_prompt_is_one_sentence_that_names_the_file(tmp_path, name, data, says):
    with pytest.raises(FarmError) as error:
        list(prompts.read_all([written(tmp_path / name, data)]))
    assert says in str(error.value) and name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_input_gets_one_sentence(tmp_path):
    for source in ("no.json", "no.jsonl", "no.py"):
        with pytest.raises(FarmError, match="cannot be read"):
            list(prompts.read_all([str(tmp_path / source)]))
    with pytest.raises(FarmError, match="has no .json"):
        list(prompts.read_all([str(tmp_path)]))


def test_servers_are_urls_and_entries_of_files(tmp_path):
    file = written(tmp_path / "servers.json", [
        {"url": "http://b:8188/", "name": "b"},
        {"name": "own", "command": ["python", "main.py", "--port", "{port}"], "count": 2,
         "gpus": 0.5, "env": {"A": "1"}, "folder": "/opt", "resources": {"A100": 1}},
    ])
    found = read_servers(["http://a:8188", file])
    assert [spec.name for spec in found] == ["http://a:8188", "b", "own-0", "own-1"]
    assert [spec.is_started for spec in found] == [False, False, True, True]
    assert found[2].gpus == 0.5 and found[2].env == {"A": "1"}


COMMAND = ["x", "{port}"]


@pytest.mark.parametrize("data, says", [
    ("{", "is not JSON"), ({}, "a list of servers"), ([3], "server 0 of"),
    ([{}], "`url` or `command`"),
    ([{"url": "http://a", "command": COMMAND}], "`url` or `command`"),
    ([{"url": "http://a", "speed": 3}], "at most"), ([{"url": "gpu-box:8188"}], "is no URL"),
    ([{"url": "http://a:99999"}], "is no URL"), ([{"command": "python main.py"}], "list of words"),
    ([{"command": ["python", "main.py"]}], "{port}"),
    ([{"command": COMMAND, "count": 0}], "`count`"),
    ([{"command": COMMAND, "count": True}], "`count`"),
    ([{"command": COMMAND, "gpus": -1}], "`gpus`"),
    ([{"command": COMMAND, "env": {"A": 1}}], "`env`"),
    ([{"command": COMMAND, "resources": {"A": "x"}}], "`resources`"),
    ([{"url": "http://a", "name": "a"}, {"url": "http://b", "name": "a"}],
     "Two servers are called a"),
    ([], "wants a server"),
])
def test_a_bad_list_of_servers_is_one_sentence(tmp_path, data, says):
    with pytest.raises(FarmError) as error:
        read_servers([written(tmp_path / "servers.json", data)])
    assert says in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_server_is_one_sentence():
    with pytest.raises(FarmError, match="neither a URL .* nor a file that can be read"):
        read_servers(["gpu-box"])
    with pytest.raises(FarmError, match="is no URL"):
        read_servers(["http://"])
