"""The files that a workflow names: where they are, and what a dry run can have of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import public_models
from .errors import DevError
from .models import Ask
from .sparse_files import SparseFile, read_sparse

READABLE = (".safetensors", ".sft")
UNREADABLE = (".ckpt", ".pt", ".pth", ".bin", ".gguf", ".onnx")
Json = dict[str, Any]


@dataclass
class Found:
    """The model files of a workflow, by their places in a models folder.

    `origin`: where each header comes from. `unreadable`: there, but of a kind without a header.
    `unknown`: neither in the folders nor published.
    """

    files: dict[str, SparseFile] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def strings(data: Any) -> Iterator[str]:
    """Every string of a workflow, however deep."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings(value)


def named(data: Any, endings: tuple[str, ...]) -> list[str]:
    """The strings of a workflow that are the name of such a file, each once."""
    found = {text: None for text in strings(data)
             if text.lower().endswith(endings) and not re.search(r"[\n:*?\"<>|]", text)}
    return list(found)


def find_models(data: Any, there: Mapping[str, Path], ask: Ask) -> Found:
    """The model files that a workflow names: those that are there, else published ones.

    there: as `index` has it. ask: knows the weights of ComfyUI's classes (`DryServer.shapes`).
    """
    found, public = Found(), []
    for name in named(data, READABLE + UNREADABLE):
        tail = name.replace("\\", "/").lower()
        own = {place: path for place, path in there.items()
               if place.lower().endswith(f"/{tail}")}
        if own and tail.endswith(UNREADABLE):
            found.unreadable.append(name)
        elif own:
            for place, path in own.items():
                found.files[place] = read_sparse(path)
                found.origin[place] = "header of the file"
        elif places := public_models.known(name):
            public += [(place, name) for place in places]
        else:
            (found.unreadable if tail.endswith(UNREADABLE) else found.unknown).append(name)
    made = public_models.sparse_files([place for place, _ in public], ask)
    for place, name in public:
        target = f"{place.rpartition('/')[0]}/{name}" if "/" in name or "\\" in name else place
        found.files[target.replace("\\", "/")] = made[place]
        found.origin[target.replace("\\", "/")] = public_models.origin(place)
    return found


def index(folders: Iterable[Path]) -> dict[str, Path]:
    """Every model file below these folders by its place there; the first folder wins."""
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DevError(f"{folder} is no folder; give --models the folder with "
                           "checkpoints, vae and so on.")
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in READABLE + UNREADABLE and path.is_file():
                found.setdefault(path.relative_to(folder).as_posix(), path)
    return found


def check_named(prompt: Json, found: Found) -> None:
    """DevError, with the node, where the prompt needs a file that a dry run cannot have."""
    for node_id, node in prompt.items():
        for value in node["inputs"].values():
            where = f"Node {node_id} ({node['class_type']}) names {value}"
            if isinstance(value, str) and value in found.unreadable:
                raise DevError(
                    f"{where}, which cannot be read dry: only a safetensors file tells its "
                    "weights without being read whole; convert it, or choose another file.")
            if isinstance(value, str) and value in found.unknown:
                raise DevError(
                    f"{where}, which is neither in a models folder nor a published file whose "
                    "sizes are known; name its folder with --models.")
