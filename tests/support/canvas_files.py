"""The nodes of a small server whose files of the canvas become prompts, and prompts compared."""

from tools.node_info import node_infos

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
