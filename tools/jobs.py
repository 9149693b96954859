"""Prompts to run: files of the canvas or of the API, with settings and seeds put into them."""

import argparse
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .client import Client
from .errors import DevError
from .node_info import MADE_BY_THE_PAGE, NodeInfo, node_infos
from .settings import parse_setting, with_settings
from .ui_prompt import api_prompt, is_workflow

SEEDS = ("seed", "noise_seed")
VIEW = "viewport_state"  # where a 3D picture is seen from, which may be left out
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

    DevError when it cannot be read as either, and where nothing of it would run.
    """
    data = read_file(path)
    if is_workflow(data):
        infos = node_infos(client.get_json("/object_info"))
        data = api_prompt(data, infos)
        _refuse_unmade(data, infos)
    if not data:
        raise DevError(f"{path} has no node that runs; notes, muted and bypassed nodes do not.")
    return data


def _refuse_unmade(prompt: Json, infos: Mapping[str, NodeInfo]) -> None:
    """DevError for a node that cannot run without a picture or a sound which its page makes."""
    for node_id, node in prompt.items():
        for item in infos[node["class_type"]].inputs:
            made = item.type in MADE_BY_THE_PAGE and item.name != VIEW
            if made and not node["inputs"].get(item.name):
                raise DevError(
                    f"Node {node_id} ({node['class_type']}) gets its {item.name} from the page of "
                    "ComfyUI, when a prompt is queued there; save the workflow with Export (API) "
                    "and give that file.")


def read_file(path: Path) -> Json:
    """The workflow or prompt in a file as it is; DevError where it is neither."""
    try:
        # Some editors of Windows put a mark before the text, which "utf-8-sig" takes off.
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DevError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DevError(f"{path} is no text; give the workflow's JSON, which ComfyUI writes with "
                       "Save or Export (API).") from error
    except (ValueError, RecursionError) as error:
        raise DevError(f"{path} is not JSON: {error}.") from error
    if not (_is_whole_workflow(data) if is_workflow(data) else _is_prompt(data)):
        raise DevError(f"{path} is neither a workflow of the canvas nor an API prompt; save it "
                       "in ComfyUI with Save or Export (API).")
    return dict(data)


def _is_whole_workflow(data: Json) -> bool:
    graphs = [data, *((data.get("definitions") or {}).get("subgraphs") or [])]
    nodes = [node for graph in graphs for node in graph.get("nodes") or []]
    return all(isinstance(node, dict) and {"id", "type"} <= set(node) for node in nodes)


def _is_prompt(data: Any) -> bool:
    return isinstance(data, dict) and all(
        isinstance(node, dict) and isinstance(node.get("class_type"), str)
        and isinstance(node.get("inputs"), dict) for node in data.values())
