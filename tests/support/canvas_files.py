"""Files of the canvas that tests edit: the nodes of a small server, and what must hold after."""

from tools.advice import apply_edit
from tools.node_info import node_infos
from tools.ui_prompt import api_prompt

ANY = ["*"]
OBJECT_INFO = {
    "Load": {"input": {"required": {"name": [["a", "b"]]}}, "output": ["MODEL", "CLIP"]},
    "Encode": {"input": {"required": {"clip": ["CLIP"], "text": ["STRING", {"multiline": True}]}},
               "output": ["CONDITIONING"], "display_name": "Encode it"},
    "Sample": {"input": {"required": {"model": ["MODEL"], "positive": ["CONDITIONING"],
                                      "seed": ["INT", {"default": 0}]}}, "output": ["LATENT"]},
    "Save": {"input": {"required": {"latent": ["LATENT"]}}, "output": []},
    "HeadroomOOMGuard": {
        "input": {"required": {"model": ANY, "max_attempts": ["INT", {"default": 8}]}},
        "output": ["*"], "output_name": ["model"], "display_name": "OOM Guard"},
    "HeadroomOffloadModel": {
        "input": {"required": {"model": ANY, "scope": [["this model", "every other model"]]},
                  "optional": {"after": ANY}},
        "output": ["*", "*", "STRING"], "display_name": "Offload Model"},
    "HeadroomEncodeToCPU": {
        "input": {"required": {"clip": ["CLIP"], "text": ["STRING", {"multiline": True}],
                               "cache": [["off", "disk"]]}},
        "output": ["CONDITIONING", "STRING", "STRING"], "display_name": "Encode to CPU"},
}
INFOS = node_infos(OBJECT_INFO)


def by_id(workflow):
    return {node["id"]: node for node in workflow["nodes"]}


def assert_links_are_whole(workflow):
    nodes = by_id(workflow)
    for number, origin, out, target, slot, _ in workflow["links"]:
        assert number in nodes[origin]["outputs"][out]["links"]
        assert nodes[target]["inputs"][slot]["link"] == number
    known = {link[0] for link in workflow["links"]}
    for node in nodes.values():
        assert {s["link"] for s in node.get("inputs", [])} - {None} <= known
        assert {n for s in node.get("outputs", []) for n in s["links"] or []} <= known
    assert workflow["last_link_id"] >= max(known)


def assert_same_prompt(before, after, steps):
    """The prompt of the file after is that of the file before with the steps in it."""
    old = api_prompt(before, INFOS)
    assert_alike(old, apply_edit(old, {"steps": list(steps)}), api_prompt(after, INFOS))


def assert_alike(old, wanted, made):
    """Two prompts are the same but for the ids of nodes that `old` does not have."""
    new = [[key for key in prompt if key not in old] for prompt in (wanted, made)]
    pairs = zip(*(sorted(ids, key=_number) for ids in new), strict=True)
    names = {**{key: key for key in old}, **dict(pairs)}

    def renamed(value):
        return [names[value[0]], value[1]] if isinstance(value, list) else value

    for key, node in wanted.items():
        assert made[names[key]]["class_type"] == node["class_type"]
        assert made[names[key]]["inputs"] == {
            name: renamed(value) for name, value in node["inputs"].items()}


def _number(node_id):
    return int(node_id.split(":")[-1])
