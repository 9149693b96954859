"""Nodes that become other nodes."""

from comfy_execution.graph_utils import GraphBuilder

from .waiting import Timed


class TimedExpand(Timed):
    """Becomes a chain of `count` TimedWork nodes."""

    INPUTS = {**Timed.INPUTS, "count": ("INT", {"default": 3}),
              "kind": ("STRING", {"default": "TimedWork"})}

    def run(self, seconds, salt, count, kind, value=None):
        graph = GraphBuilder()
        for step in range(count):
            inputs = {"seconds": seconds, "salt": salt * 100 + step}
            if value is not None or step:
                inputs["value"] = value
            value = graph.node(kind, **inputs).out(0)
        return {"result": (value,), "expand": graph.finalize()}


class TimedLoop(Timed):
    """A loop by expansion: works, then becomes itself with one turn less."""

    INPUTS = {**Timed.INPUTS, "turns": ("INT", {"default": 3})}

    def run(self, seconds, salt, turns, value=None):
        graph = GraphBuilder()
        work = graph.node("TimedWork", seconds=seconds, salt=salt * 100 + turns)
        if turns <= 1:
            return {"result": (work.out(0),), "expand": graph.finalize()}
        loop = graph.node(
            "TimedLoop", seconds=seconds, salt=salt, turns=turns - 1, value=work.out(0)
        )
        return {"result": (loop.out(0),), "expand": graph.finalize()}
