"""The host adapter to ComfyUI's folders: the files that widgets name, and our own folders."""

import os
import stat
from pathlib import Path

import folder_paths

from ..base.environment import folder_of
from ..base.prompt_node import name_below

IN_PARTS = ("model_index.json", "config.json")  # in the folder of a model of several files
EMBEDDING_FOLDER_VARIABLE = "HEADROOM_EMBEDDING_FOLDER"


def files_named(name: str) -> list[Path]:
    """Return the existing files that `name` means: in a models folder, as input, or a full path.

    A folder counts if it has a model of several files, in the layout of Hugging Face. A path on
    another machine is not looked at: Windows would log in there, and anybody may have written it.
    """
    if name[:2].replace("\\", "/") == "//":
        return []
    relative = name_below(name)
    places = [Path(root) for kind in folder_paths.folder_names_and_paths.values()
              for root in kind[0] if root]
    candidates = [place / relative for place in places]
    if Path(name).is_absolute():
        candidates.append(Path(name))
    if Path(name).suffix and folder_paths.exists_annotated_filepath(name):
        candidates.append(Path(folder_paths.get_annotated_filepath(name)))
    return list(dict.fromkeys(file for path in candidates for file in _files_at(path)))


def _files_at(path: Path) -> list[Path]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return [path]
        if stat.S_ISDIR(mode) and any((path / name).is_file() for name in IN_PARTS):
            return sorted(file for file in path.rglob("*") if file.is_file())
    except (OSError, ValueError):
        pass  # no such file, or no valid file name here
    return []


def embedding_files() -> list[Path]:
    """Return every textual-inversion embedding that a prompt can name."""
    return [
        Path(folder) / name
        for root in folder_paths.get_folder_paths("embeddings")
        for folder, _, names in os.walk(root, followlinks=True)
        for name in sorted(names)
    ]


def own_folder() -> Path:
    """Return Headroom's own folder in ComfyUI's user folder, which its HTTP API does not serve."""
    return Path(folder_paths.get_user_directory()) / "__headroom"


def cache_folder() -> Path:
    """Return the folder of the cached embeddings: HEADROOM_EMBEDDING_FOLDER, else our own."""
    return folder_of(os.environ, EMBEDDING_FOLDER_VARIABLE) or own_folder() / "embeddings"


def conditioning_folder() -> Path:
    """Return the folder for saved conditioning: beside the cache's, or in the user's own folder."""
    shared = folder_of(os.environ, EMBEDDING_FOLDER_VARIABLE)
    return (shared or own_folder()) / "conditioning"
