"""A small workflow on a canvas, and what a server says of its nodes."""

from devtools.canvas import Canvas
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
