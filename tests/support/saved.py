"""A small workflow as the canvas saves it, its prompt, and what a server says of its nodes."""

import copy

from tools.node_info import node_infos
from tools.ui_subgraph import INPUTS as INSIDE
from tools.ui_subgraph import OUTPUTS as OUTSIDE

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


# As the canvas saves it: a note, two loaders, what works with them, and an output.
WORKFLOW = {
    "nodes": [
        {"id": 1, "type": "MarkdownNote", "widgets_values": ["Hello"]},
        {"id": 2, "type": "Load", "inputs": [], "widgets_values": ["b"],
         "outputs": [{"name": "MODEL", "type": "MODEL", "links": [1]}]},
        {"id": 3, "type": "Picture", "inputs": [], "widgets_values": ["x.png", "image"],
         "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [2]}]},
        {"id": 4, "type": "Sample", "title": "Sample it",
         "widgets_values": [5, "fixed", 20, "slow"],
         "inputs": [{"name": "model", "type": "MODEL", "link": 1},
                    {"name": "image", "type": "IMAGE", "link": 2},
                    {"name": "text", "type": "STRING", "link": None}],
         "outputs": [{"name": "latent", "type": "LATENT", "links": [3]},
                     {"name": "model", "type": "MODEL", "links": []}]},
        {"id": 5, "type": "Save", "widgets_values": ["out"], "outputs": [],
         "inputs": [{"name": "latent", "type": "LATENT", "link": 3}]},
    ],
    "links": [[1, 2, 0, 4, 0, "MODEL"], [2, 3, 0, 4, 1, "IMAGE"], [3, 4, 0, 5, 0, "LATENT"]],
}
PROMPT = {
    "2": {"inputs": {"name": "b"}, "class_type": "Load", "_meta": {"title": "Load"}},
    "3": {"inputs": {"image": "x.png"}, "class_type": "Picture", "_meta": {"title": "Picture"}},
    "4": {"inputs": {"seed": 5, "steps": 20, "mode": "slow", "model": ["2", 0], "image": ["3", 0]},
          "class_type": "Sample", "_meta": {"title": "Sample it"}},
    "5": {"inputs": {"name": "out", "latent": ["4", 0]}, "class_type": "Save",
          "_meta": {"title": "Save"}},
}


def saved():
    """A copy of the workflow, to change."""
    return copy.deepcopy(WORKFLOW)


def node_of(workflow, kind):
    return next(node for node in workflow["nodes"] if node["type"] == kind)


LINK = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
SAMPLE = 7  # the subgraph node that stands for the sampler


def link(*values):
    return dict(zip(LINK, values, strict=True))


def folded():
    """The small workflow with its sampler in a subgraph, whose model comes from outside."""
    workflow = saved()
    inner = copy.deepcopy(node_of(workflow, "Sample"))
    inner["inputs"][1]["link"] = None
    inner["inputs"].append(
        {"name": "steps", "type": "INT", "widget": {"name": "steps"}, "link": 12})
    graph = {
        "id": "graph-1", "nodes": [inner],
        "inputs": [{"name": "model", "type": "MODEL", "linkIds": [1]},
                   {"name": "steps", "type": "INT", "linkIds": [12]}],
        "outputs": [{"name": "latent", "type": "LATENT"}],
        "links": [link(1, INSIDE, 0, 4, 0, "MODEL"), link(12, INSIDE, 1, 4, 3, "INT"),
                  link(3, 4, 0, OUTSIDE, 0, "LATENT")],
    }
    place = workflow["nodes"].index(node_of(workflow, "Sample"))
    workflow["nodes"][place] = {
        "id": SAMPLE, "type": "graph-1", "widgets_values": [],
        "inputs": [{"name": "model", "type": "MODEL", "link": 1}],
        "outputs": [{"name": "latent", "type": "LATENT", "links": [3]}]}
    workflow["links"] = [[1, 2, 0, SAMPLE, 0, "MODEL"], [3, SAMPLE, 0, 5, 0, "LATENT"]]
    workflow["definitions"] = {"subgraphs": [graph]}
    return workflow, graph
