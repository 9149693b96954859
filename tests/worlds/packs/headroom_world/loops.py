"""Loops that clone the nodes of their body under prefixed ids, and wires that may be empty."""

from comfy_execution.graph_utils import GraphBuilder, is_link

from .anything import ANYTHING, Node


class WorldLoopOpen(Node):
    """The begin of a loop's body; `value` may be nothing in the first turn."""

    INPUTS, OPTIONAL = {"turns": ("INT", {})}, {"value": (ANYTHING,)}
    RETURN_TYPES = ("WORLD_LOOP", "*")

    def run(self, turns, value=None):
        return ("loop", value)


class WorldLoopClose(Node):
    """Runs the body again until `turns` are over: clones of its nodes, under new ids."""

    INPUTS = {"loop": ("WORLD_LOOP", {"rawLink": True}), "value": (ANYTHING,)}
    HIDDEN = {"dynprompt": "DYNPROMPT", "unique_id": "UNIQUE_ID"}

    def run(self, loop, value, dynprompt, unique_id):
        opened = loop[0]
        turns = dynprompt.get_node(opened)["inputs"]["turns"]
        if turns <= 1:
            return (value,)
        body = self._between(dynprompt, opened, unique_id)
        graph = GraphBuilder()
        for node_id in body:
            node = dynprompt.get_node(node_id)
            made = graph.node(node["class_type"], "Again" if node_id == unique_id else node_id)
            made.set_override_display_id(node_id)
        for node_id in body:
            made = graph.lookup_node("Again" if node_id == unique_id else node_id)
            for name, given in dynprompt.get_node(node_id)["inputs"].items():
                if is_link(given) and given[0] in body:
                    parent = "Again" if given[0] == unique_id else given[0]
                    given = graph.lookup_node(parent).out(given[1])
                made.set_input(name, given)
        first = graph.lookup_node(opened)
        first.set_input("turns", turns - 1)
        first.set_input("value", value)
        return {"result": (graph.lookup_node("Again").out(0),), "expand": graph.finalize()}

    def _between(self, dynprompt, opened, closed):
        """The ids of the nodes from the begin of the body to its end, both included."""
        takers = {}
        todo, seen = [closed], set()
        while todo:
            node_id = todo.pop()
            if node_id in seen:
                continue
            seen.add(node_id)
            for given in dynprompt.get_node(node_id)["inputs"].values():
                if is_link(given):
                    takers.setdefault(given[0], []).append(node_id)
                    todo.append(given[0])
        body, todo = {closed}, [opened]
        while todo:
            node_id = todo.pop()
            if node_id not in body or node_id == opened:
                body.add(node_id)
                todo.extend(taker for taker in takers.get(node_id, []) if taker not in body)
        return body


class WorldMaybe(Node):
    """An output of a context, which is empty where nothing was put in."""

    INPUTS, OPTIONAL = {"full": ("BOOLEAN", {})}, {"model": ("MODEL",), "after": (ANYTHING,)}
    RETURN_TYPES = ("MODEL",)

    def run(self, full, model=None, after=None):
        return (model if full else None,)


class WorldFirstModel(Node):
    """Takes the first of two models that is there."""

    OPTIONAL = {"first": ("MODEL",), "second": ("MODEL",)}
    RETURN_TYPES = ("MODEL",)

    def run(self, first=None, second=None):
        return (first if first is not None else second,)


class WorldFirstLatent(WorldFirstModel):
    OPTIONAL = {"first": (ANYTHING,), "second": ("LATENT",)}
    RETURN_TYPES = ("LATENT",)
