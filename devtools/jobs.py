"""Prompts to run: files of the canvas or of the API, with settings and seeds put into them."""

import argparse
import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .client import Client
from .errors import DevError
from .node_info import node_infos
from .settings import parse_setting, with_settings
from .ui_prompt import api_prompt, is_workflow

SEEDS = ("seed", "noise_seed")
Json = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One prompt to run, and what it is called."""

    file: Path
    seed: int | None
    prompt: Json

    @property
    def label(self) -> str:
        return self.file.stem if self.seed is None else f"{self.file.stem}, seed {self.seed}"


def jobs_of(args: argparse.Namespace, client: Client) -> list[Job]:
    """Every file with every seed; all are read and changed before the first one runs."""
    settings = dict(parse_setting(text) for text in args.settings)
    jobs = []
    for file in args.files:
        prompt = with_settings(read_prompt(file, client), settings)
        seeds = args.seeds or [None]
        jobs += [Job(file, seed, with_seed(prompt, seed, file)) for seed in seeds]
    return jobs


def with_seed(prompt: Json, seed: int | None, file: Path) -> Json:
    """The prompt with `seed` in every node that has one of its own; DevError where none has."""
    if seed is None:
        return prompt
    changed = copy.deepcopy(prompt)
    own = [(node["inputs"], name) for node in changed.values() for name in SEEDS
           if isinstance(node["inputs"].get(name), int)]
    if not own:
        raise DevError(f"{file} has no node with a seed; leave --seed out for it.")
    for inputs, name in own:
        inputs[name] = seed
    return changed


def read_prompt(path: Path, client: Client) -> Json:
    """The file as an API prompt; a workflow is converted with what the server knows of its nodes.

    DevError when it cannot be read as either.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DevError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise DevError(f"{path} is not JSON: {error}.") from error
    if is_workflow(data):
        return api_prompt(data, node_infos(client.get_json("/object_info")))
    if not isinstance(data, dict) or not all(
        isinstance(node, dict) and "class_type" in node for node in data.values()
    ):
        raise DevError(
            f"{path} is neither a workflow of the canvas nor an API prompt; save it in ComfyUI "
            "with Save or Export (API)."
        )
    return data
