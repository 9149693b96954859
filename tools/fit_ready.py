"""A workflow as a dry run takes it: its prompt, and the model files that it names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .client import Client
from .fit_files import Ask, Found, find_models
from .fit_loras import without_loras
from .fit_prompt import ObjectInfo
from .jobs import read_prompt

Json = dict[str, Any]
ELSEWHERE = re.compile(r" \[(output|temp)\]$")


class Ready(NamedTuple):
    """`left_out`: LoRAs that nobody knows. `prompt`, `found`: without them, and with them."""

    prompt: Json
    found: Found
    left_out: list[str]


def ready(
    workflow: Path, data: Json, there: Mapping[str, Path], client: Client, registry: ObjectInfo,
    ask: Ask,
) -> Ready:
    """`there` and `ask` as in `find_models`; DevError where it cannot be a prompt."""
    prompt = read_prompt(workflow, client)
    found = find_models(data, there, ask)
    prompt, left_out = without_loras(prompt, {*found.unknown, *found.unreadable}, registry)
    return Ready(from_input(prompt), found, left_out)


def from_input(prompt: Json) -> Json:
    """The prompt with every picture from the folder `input`, the only one with pictures in it."""
    return {node_id: {**node, "inputs": {
        name: ELSEWHERE.sub("", value) if isinstance(value, str) else value
        for name, value in node["inputs"].items()}} for node_id, node in prompt.items()}
