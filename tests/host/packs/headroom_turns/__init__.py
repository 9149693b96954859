"""A loop where ComfyUI has none: three turns, kept in its cache, that count.

Its begin and end declare to be these as newer schemas do.
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import folder_paths
from comfy_execution.graph_utils import GraphBuilder

LATENT = ("LATENT",)
Node = runpy.run_path(str(Path(__file__).resolve().parents[4] / "lab/packs/node.py"))["Node"]


class TheirLoop(Node):
    """Makes the turns, and returns the value of the last one."""

    SCHEMA = SimpleNamespace(loop_boundary="start")
    RETURN_TYPES = LATENT
    INPUTS = {"cache_iterations": ("BOOLEAN", {}), "value": (*LATENT, {"rawLink": True})}

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")

    def run(self, cache_iterations, value):
        graph = GraphBuilder()
        for turn in range(3):
            node = graph.node("Turn", f"{turn}_body", value=value)
            node.set_override_display_id("body")
            value = node.out(0)
        return {"result": (value,), "expand": graph.finalize()}


class Turn(Node):
    """Hands on a copy, and says so in the output folder."""

    RETURN_TYPES = LATENT
    INPUTS = {"value": LATENT}

    def run(self, value):
        with (Path(folder_paths.get_output_directory()) / "turns").open("ab") as turns:
            turns.write(b"x")
        return ({"samples": value["samples"].clone()},)


class TheirLoopEnd(Turn):
    """Stands behind the body, as ComfyUI's own does."""

    SCHEMA = SimpleNamespace(loop_boundary="end")


class LoopGave(Node):
    """Takes the last turn's value from the begin, which this executor of ComfyUI allows."""

    RETURN_TYPES = LATENT
    INPUTS = {"value": LATENT, "end": (*LATENT, {"lazy": True})}

    def check_lazy_status(self, value, end=None):
        return []

    def run(self, value, end=None):
        return (value,)


NODE_CLASS_MAPPINGS = {one.__name__: one for one in (TheirLoop, Turn, TheirLoopEnd, LoopGave)}
