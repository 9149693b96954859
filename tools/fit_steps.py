"""Fewer steps for a dry run: each takes the same memory, so that more would only take time."""

import copy
from typing import Any

STEPS = 3  # of a sampler: the last one calls the model once only, where others do twice (heun)
LEAST = 2  # the first step loads the model, so that only the second shows what is streamed
STAGES = ("start_at_step", "end_at_step")  # where samplers share the steps
SPLIT = "SplitSigmas"  # and where its `step` does
LISTED = "ManualSigmas"  # whose text has a number for each step, and one for the end
Json = dict[str, Any]


def fewer_steps(prompt: Json, most: int = STEPS) -> Json:
    """The prompt with LEAST to `most` steps a sampler, and LEAST for each that shares them.

    Left as it is where it cannot be told how they are shared.
    """
    changed = copy.deepcopy(prompt)
    takes = [node["inputs"] for node in changed.values() if "steps" in node["inputs"]]
    steps = [_number(prompt, inputs["steps"]) for inputs in takes]
    shares = [(node["inputs"], name) for node in changed.values() for name in node["inputs"]
              if name in STAGES or (name == "step" and node["class_type"] == SPLIT)]
    places = [_number(prompt, inputs[name]) for inputs, name in shares]
    if shares and None in (*steps, *places):
        return changed
    last = max((step for step in steps if step is not None), default=0)
    if not shares:
        _list_fewer(changed, most)
    inner = sorted({place for place in places if place is not None and 0 < place < last})
    moved = {place: LEAST * number for number, place in enumerate(inner, 1)}
    total = LEAST * (len(inner) + 1) if inner else most
    if inner and total > last:
        return changed
    for inputs, given in zip(takes, steps, strict=True):
        if given is not None or isinstance(inputs["steps"], list):
            inputs["steps"] = min(max(total if given is None else given, LEAST), total)
    for (inputs, name), place in zip(shares, places, strict=True):
        inputs[name] = moved.get(place or 0, place)
    return changed


def _list_fewer(prompt: Json, most: int) -> None:
    for node in prompt.values():
        listed = node["inputs"].get("sigmas")
        if node["class_type"] == LISTED and isinstance(listed, str):
            numbers = listed.split(",")
            if len(numbers) > most + 1:
                node["inputs"]["sigmas"] = ",".join([*numbers[:most], numbers[-1]])


def _number(prompt: Json, value: Any) -> int | None:
    """What an input is given: by itself, by a node that is a value, or over a switch."""
    node = prompt.get(value[0]) if isinstance(value, list) and value else None
    if node is None:
        return value if isinstance(value, int) else None
    inputs = node["inputs"]
    if "on_true" in inputs:
        switch = _number(prompt, inputs.get("switch"))
        return None if switch is None else _number(prompt, inputs["on_true" if switch
                                                                  else "on_false"])
    return _number(prompt, inputs["value"]) if set(inputs) == {"value"} else None
