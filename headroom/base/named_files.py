"""The files that widget values name."""

import os
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from .prompt_graph import Lookup, strings

MODEL_SUFFIXES = (
    ".safetensors", ".sft", ".ckpt", ".pt", ".pt2", ".pth", ".bin", ".gguf", ".pkl", ".onnx",
    ".yaml",
)
MAX_NAME_LENGTH = 1024


def files_of_values(lookup: Lookup, values: Any, suffixes: tuple[str, ...] = ()) -> list[Path]:
    """Return the files that the strings in widget `values` name; with `suffixes` only such."""
    names = [name for name in strings(values) if name.lower().endswith(suffixes or ("",))]
    return unique(path for name in names for path in files_named(lookup, name))


def files_named(lookup: Lookup, name: str) -> list[Path]:
    """Return the files that one string names; none for what cannot be a name."""
    if not name.strip(" ./\\") or len(name) > MAX_NAME_LENGTH or "\n" in name or "\0" in name:
        return []
    return lookup.files_named(name)


def name_below(name: str, paths: ModuleType = os.path) -> str:
    """Return `name` as a path below a folder that it cannot leave: no drive, no root, no "..".

    `os.path.relpath` does that too, but raises on Windows for a path on another drive.
    """
    drive, rest = paths.splitdrive(name)
    while drive:
        drive, rest = paths.splitdrive(rest)
    return str(paths.normpath(paths.join(paths.sep, rest))).lstrip(paths.sep)


def unique(paths: Iterable[Path]) -> list[Path]:
    """Return each path once, in the order of their first mention."""
    return list(dict.fromkeys(paths))
