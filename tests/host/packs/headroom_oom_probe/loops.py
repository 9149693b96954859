"""Loops as packs make them: the end of one copies its body, under ids that begin with its own."""

import json

from comfy_execution.graph_utils import GraphBuilder, is_link

from .rescue import ANY


class OomLoopStart:
    """Passes its input on; None without an input, as in every turn but the first."""

    CATEGORY, FUNCTION = "headroom_oom_probe", "execute"
    RETURN_TYPES = ("OOM_FLOW", ANY, ANY)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"turns": ("INT", {})}, "optional": {"value": (ANY,), "model": (ANY,)}}

    def execute(self, turns, value=None, model=None):
        return "flow", value, model


class OomLoopEnd:
    """Runs the body again with what it gave, as often as the start says."""

    CATEGORY, FUNCTION = "headroom_oom_probe", "execute"
    RETURN_TYPES = (ANY,)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"flow": ("OOM_FLOW", {"rawLink": True}), "value": (ANY,)},
                "hidden": {"dynprompt": "DYNPROMPT", "own": "UNIQUE_ID"}}

    def execute(self, flow, value, dynprompt, own):
        start = flow[0]
        turns = dynprompt.get_node(start)["inputs"]["turns"]
        if turns < 2:
            return (value,)
        body = {node for node in self._above(dynprompt, own)
                if start in self._above(dynprompt, node)}
        graph = GraphBuilder()
        for node in body:
            graph.node(dynprompt.get_node(node)["class_type"], self._name(node, own))
        for node in body:
            copy = graph.lookup_node(self._name(node, own))
            for name, given in dynprompt.get_node(node)["inputs"].items():
                inner = is_link(given) and given[0] in body
                copy.set_input(name, graph.lookup_node(self._name(given[0], own)).out(given[1])
                               if inner else given)
        again = graph.lookup_node(self._name(start, own))
        again.set_input("turns", turns - 1)
        again.set_input("value", value)
        again.set_input("model", None)
        return {"result": (graph.lookup_node("again").out(0),), "expand": graph.finalize()}

    @staticmethod
    def _name(node, own):
        return "again" if node == own else node

    @staticmethod
    def _above(dynprompt, node):
        found, pending = set(), [node]
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending += [value[0] for value in dynprompt.get_node(current)["inputs"].values()
                            if is_link(value)]
        return found


class OomCounts:
    """Uses a model if it gets one, and adds one to its number."""

    CATEGORY, FUNCTION, RETURN_TYPES = "headroom_oom_probe", "execute", ("INT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (ANY,)}, "optional": {"model": ("MODEL",)}}

    def execute(self, value, model=None):
        return (value + 1,)


class OomContext:
    """Passes a model on at the output of its type; most outputs are empty in most runs."""

    CATEGORY, FUNCTION = "headroom_oom_probe", "execute"
    RETURN_TYPES = ("OOM_CONTEXT", "MODEL", "CLIP", "VAE", "UPSCALE_MODEL")

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}, "optional": {"model": ("MODEL",)}}

    def execute(self, model=None):
        return {"model": model}, model, None, None, None


class OomModels:
    """A list of `count` models, which may be none."""

    CATEGORY, FUNCTION = "headroom_oom_probe", "execute"
    RETURN_TYPES, OUTPUT_IS_LIST = ("MODEL",), (True,)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "count": ("INT", {})}}

    def execute(self, model, count):
        return ([model] * count,)


class OomTells:
    """An output node that shows its inputs, taken as lists."""

    CATEGORY, FUNCTION, RETURN_TYPES = "headroom_oom_probe", "execute", ()
    OUTPUT_NODE = INPUT_IS_LIST = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"key": ("STRING", {})}, "optional": {
            "value": (ANY,), "models": ("MODEL",), "clip": ("CLIP",), "vae": ("VAE",),
            "upscaler": ("UPSCALE_MODEL",)}}

    def execute(self, key, value=(), **models):
        told = {name: [type(one).__name__ for one in came] for name, came in models.items()}
        return {"ui": {"text": [json.dumps({"value": list(value), **told})]}}
