"""A file of the canvas with a subgraph in it, and variants of it."""

import copy

from support.canvas_files import by_id


def link(number, origin, out, target, slot, kind):
    return {"id": number, "origin_id": origin, "origin_slot": out, "target_id": target,
            "target_slot": slot, "type": kind}


def port(name, kind, *links):
    return {"id": f"id-{name}", "name": name, "type": kind, "linkIds": list(links)}


def node(number, kind, pos, inputs, outputs, values=()):
    """A node as the canvas saves it; inputs and outputs are (name, type, link or links)."""
    return {"id": number, "type": kind, "pos": list(pos), "size": [200, 100],
            "inputs": [{"name": n, "type": t, "link": at,
                        **({"widget": {"name": n}} if t == "STRING" else {})}
                       for n, t, at in inputs],
            "outputs": [{"name": n, "type": t, "links": list(at)} for n, t, at in outputs],
            "widgets_values": list(values)}


SUBGRAPH = {
    "id": "sub", "name": "Sampling", "state": {"lastNodeId": 13, "lastLinkId": 26}, "extra": {},
    "inputNode": {"id": -10, "bounding": [-200, 0, 120, 80]},
    "outputNode": {"id": -20, "bounding": [900, 0, 120, 60]},
    "inputs": [port("model", "MODEL", 21), port("clip", "CLIP", 22), port("text", "STRING", 23)],
    "outputs": [port("LATENT", "LATENT", 25)],
    "nodes": [
        node(12, "Encode", (0, 0), [("clip", "CLIP", 22), ("text", "STRING", 23)],
             [("CONDITIONING", "CONDITIONING", [24])], ["inside"]),
        node(13, "Sample", (240, 0), [("model", "MODEL", 21), ("positive", "CONDITIONING", 24)],
             [("LATENT", "LATENT", [25])], [7, "fixed"]),
    ],
    "links": [link(21, -10, 0, 13, 0, "MODEL"), link(22, -10, 1, 12, 0, "CLIP"),
              link(23, -10, 2, 12, 1, "STRING"), link(24, 12, 0, 13, 1, "CONDITIONING"),
              link(25, 13, 0, -20, 0, "LATENT")],
}
WORKFLOW = {
    "last_node_id": 31, "last_link_id": 6, "definitions": {"subgraphs": [SUBGRAPH]},
    "nodes": [
        node(1, "Load", (0, 0), [], [("MODEL", "MODEL", [1]), ("CLIP", "CLIP", [2])], ["b"]),
        {**node(30, "sub", (240, 0), [("model", "MODEL", 1), ("clip", "CLIP", 2)],
                [("LATENT", "LATENT", [3])], ["a cat"]),
         "properties": {"proxyWidgets": [["-1", "text"]]}},
        node(31, "Save", (480, 0), [("latent", "LATENT", 3)], []),
    ],
    "links": [[1, 1, 0, 30, 0, "MODEL"], [2, 1, 1, 30, 1, "CLIP"], [3, 30, 0, 31, 0, "LATENT"]],
}


def changed(change, workflow=WORKFLOW):
    found = copy.deepcopy(workflow)
    change(found, found["definitions"]["subgraphs"][0])
    return found


def twice(workflow, _):
    """Another instance, with a text of its own."""
    other = {**copy.deepcopy(by_id(workflow)[30]), "id": 40, "pos": [240, 300],
             "widgets_values": ["a dog"]}
    other["inputs"][0]["link"], other["inputs"][1]["link"] = 4, 5
    other["outputs"][0]["links"] = [6]
    workflow["nodes"] += [other, node(41, "Save", (480, 300), [("latent", "LATENT", 6)], [])]
    by_id(workflow)[1]["outputs"][0]["links"] = [1, 4]
    by_id(workflow)[1]["outputs"][1]["links"] = [2, 5]
    workflow["links"] += [[4, 1, 0, 40, 0, "MODEL"], [5, 1, 1, 40, 1, "CLIP"],
                          [6, 40, 0, 41, 0, "LATENT"]]
    workflow["last_node_id"] = 41


def deeper(workflow, inner):
    """The subgraph as the only node of another one, which leads everything through."""
    instance = {**copy.deepcopy(by_id(workflow)[30]), "id": 50}
    instance["inputs"] = [{**one, "link": 60 + at} for at, one in enumerate(instance["inputs"])]
    instance["inputs"].append({"name": "text", "type": "STRING", "widget": {"name": "text"},
                               "link": 62})
    instance["outputs"][0]["links"] = [63]
    workflow["definitions"]["subgraphs"].append({
        **copy.deepcopy(inner), "id": "outer", "nodes": [instance],
        "inputs": [port("model", "MODEL", 60), port("clip", "CLIP", 61),
                   port("text", "STRING", 62)],
        "outputs": [port("LATENT", "LATENT", 63)],
        "links": [link(60, -10, 0, 50, 0, "MODEL"), link(61, -10, 1, 50, 1, "CLIP"),
                  link(62, -10, 2, 50, 2, "STRING"), link(63, 50, 0, -20, 0, "LATENT")]})
    by_id(workflow)[30]["type"] = "outer"
