"""Save and Load Conditioning in a running ComfyUI: the folder, the encoder and the warnings."""

import logging
from pathlib import Path
from typing import Any

from ..base.device import mib_text
from ..base.file_identity import identity_of
from ..host.adapter import host_registry
from ..host.features import lost
from ..measure.journal import executing_node
from .encode import conditioning_bytes
from .encoders import Encoder, encoders_above, is_made_of, loaders_in, name_of
from .named_conditioning import Loaded, NotUsable, file_of, load, names_in, save

log = logging.getLogger("headroom")

# Files that nodes of the prompt that runs wrote, by (prompt, node): the items of a list must not
# overwrite each other.
_written: dict[tuple[str | None, str | None], list[Path]] = {}


def names() -> list[str]:
    """Return the names from which Load Conditioning can choose."""
    return [] if lost("files") else names_in(_folder())


def save_named(conditioning: Any, name: str, graph: Any) -> tuple[Path, str]:
    """Write a conditioning under `name`; return the file and a sentence about it.

    Raises NotUsable. In a ComfyUI that is too different it writes nothing and says so.
    `graph`: the API prompt or DynamicPrompt with the running node.
    """
    if why := lost("files"):
        return Path(), why
    prompt_id, node_id = executing_node()
    file = _free_file(file_of(_folder(), name), (prompt_id, node_id))
    encoders = _encoders(graph, node_id or "")
    save(conditioning, file, encoders)
    text = f"{file.stem}: {mib_text(conditioning_bytes(conditioning))} by {name_of(encoders)}"
    return file, f"{text}\n{file}"


def load_named(name: str) -> tuple[Any, str]:
    """Read a conditioning; return it with a report, which warns if encoders do not match."""
    file = file_of(_folder(), name)
    from ..host import graph as host_graph

    loaded = load(file)
    warnings = _mismatches(loaded, file.stem, host_graph.running_prompt())
    for warning in warnings:
        log.warning("[Headroom] %s", warning)
    size = mib_text(conditioning_bytes(loaded.conditioning))
    lines = [f"{file.stem}: {size} by {name_of(loaded.encoders)}"]
    return loaded.conditioning, "\n".join([*lines, *(f"Warning: {text}" for text in warnings)])


def problem_with(name: str | None) -> str | None:
    """Return why this is no valid name, or None; the file may still be saved before it runs.

    A name that comes over a wire is None: it is not known yet.
    """
    try:
        if name is not None:
            file_of(_folder(), name)
    except NotUsable as error:
        return str(error)
    return None


def fingerprint(name: str | None) -> str:
    """Return a text that changes with the file and with the warnings for this workflow.

    Of a name that comes over a wire (None) it changes with each file in the folder.
    """
    try:
        if name is None:
            changed = ((one, file_of(_folder(), one).stat().st_mtime_ns) for one in names())
            return str(list(changed))
        file = file_of(_folder(), name)
        loaded, content = load(file), identity_of(file)["content"]
    except (OSError, NotUsable) as error:
        return str(error)
    from ..host import graph as host_graph

    warnings = _mismatches(loaded, file.stem, host_graph.running_prompt())
    return "\n".join([str(content), *warnings])


def _folder() -> Path:
    if why := lost("files"):
        raise NotUsable(why)
    from ..host import files as host_files

    return host_files.conditioning_folder()


def _free_file(file: Path, place: tuple[str | None, str | None]) -> Path:
    """Return the file itself, or one with a number if this node wrote it already in this prompt."""
    for earlier in [one for one in _written if one[0] != place[0]]:
        del _written[earlier]
    written = _written.setdefault(place, [])
    number, found = 1, file
    while found in written:
        number += 1
        found = file.with_name(f"{file.stem}_{number}{file.suffix}")
    written.append(found)
    return found


def _encoders(graph: Any, node_id: str) -> list[Encoder]:
    """Return the encoders above the saved conditioning; empty if they cannot be found out."""
    try:
        return encoders_above(graph, node_id, host_registry())
    except (OSError, LookupError) as error:
        log.warning("[Headroom] which encoder made a conditioning is not known: %s", error)
        return []


def _mismatches(loaded: Loaded, name: str, running: Any) -> list[str]:
    """Return a sentence for each text encoder in the prompt that did not make this conditioning."""
    if running is None or not loaded.encoders or not loaded.encoders[0]["files"]:
        return []
    try:
        present = loaders_in(running[0], host_registry())
        if not present or any(is_made_of(loaded.encoders[0], files) for files in present):
            return []
    except OSError as error:
        return [f"the text encoders of this workflow cannot be compared: {error.strerror}."]
    others = "; ".join(", ".join(path.name for path in files) for files in present)
    return [
        f"the conditioning {name!r} was made by {name_of(loaded.encoders)}, but this workflow "
        f"loads another text encoder ({others}): they may not fit the same model."
    ]
