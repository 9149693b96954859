"""The prompts that a fit looks at: as they are, guarded, and with advice applied."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from .fit_files import READABLE, UNREADABLE
from .prompt_edit import apply_edit

# Samplers that search for their smallest sigma need real values. In their place a dry run takes one
# that calls the model as often in a step.
ONE_CALL, TWO_CALLS = "euler", "heun"
TWICE = ("dpmpp_sde", "dpmpp_sde_gpu", "exp_heun_2_x0_sde", "sa_solver_pece")
ONCE = ("sa_solver",)  # solves equations; other SDE samplers are known by their name
AS_IT_IS = ("er_sde",)
CORE = ("nodes", "comfy_extras", "comfy_api_nodes")
Json = dict[str, Any]


class ObjectInfo:
    """A server's node registry, from its `/object_info`, as the guard asks for it."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        from headroom.base.node_types import from_object_info

        self._types = {name: from_object_info(data) for name, data in info.items()}
        self._core = {
            kind for name, data in info.items()
            if str(data.get("python_module", "")).split(".")[0] in CORE
            for kind in self._types[name].outputs
        }

    def node_type(self, class_type: str) -> Any:
        return self._types.get(class_type)

    def is_core(self, type_name: str) -> bool:
        return type_name in self._core

    def class_info(self, class_type: str) -> None:
        """Nothing else is known of it here."""

    def files_named(self, name: str) -> list[Any]:
        return []

    def samples(self, class_type: str) -> bool:
        """Whether a node of this class takes the steps that a user waits for."""
        found = self._types.get(class_type)
        takes = set(found.inputs.values()) if found is not None else set()
        return found is not None and "LATENT" in found.outputs and bool(takes & {"MODEL", "GUIDER"})


def loaded_by(prompt: Json, node_id: str) -> str:
    """The model file that a node reads, where it has no wires; "" for any other node."""
    inputs = prompt.get(node_id, {}).get("inputs", {}).values()
    files = [value for value in inputs if isinstance(value, str)
             and value.lower().endswith(READABLE + UNREADABLE)]
    return files[0] if files and not any(isinstance(value, list) for value in inputs) else ""


def guarded(prompt: Json, registry: Any) -> Json:
    """The prompt with an OOM Guard on every wire that brings a model to a node that runs it."""
    from headroom.base.graph import Graph
    from headroom.base.guards import guarded as guards

    return dict(guards(Graph(prompt, registry)).prompt)  # for a server that runs what it is sent


def advised(prompt: Json, advice: Iterable[Mapping[str, Any]]) -> tuple[Json, list[str]]:
    """The prompt with every edit that helps one run and keeps its picture, and what was applied."""
    applied = []
    for one in advice:
        if one.get("edit") is None or one.get("changes_picture"):
            continue
        try:
            prompt = apply_edit(prompt, one["edit"])
        except ValueError:
            continue  # an earlier edit has changed what it would have changed
        applied.append(str(one["text"]))
    return prompt, applied


def without_noise_trees(prompt: Json) -> Json:
    """Return the prompt with other samplers in the place of stochastic (SDE) ones."""
    changed = copy.deepcopy(prompt)
    for node in changed.values():
        name = node["inputs"].get("sampler_name")
        if not isinstance(name, str) or name in AS_IT_IS:
            continue
        if name in TWICE:
            node["inputs"]["sampler_name"] = TWO_CALLS
        elif name in ONCE or "sde" in name.split("_"):
            node["inputs"]["sampler_name"] = ONE_CALL
    return changed
