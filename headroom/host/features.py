"""Which features of Headroom are lost because the running ComfyUI lacks or changed their symbols.

`check` compares the table of symbols with ComfyUI once, when the pack starts; code that needs a
feature asks `lost`. A symbol with "?" that is not there costs no feature and is not announced.
Without ComfyUI nothing is checked and nothing is lost.
"""

import importlib
from collections.abc import Mapping
from typing import NamedTuple

from ..base.said import Said, said
from .contract import CONTRACT
from .symbols import broken

SHOWN = 2  # symbols in a sentence


class Loss(NamedTuple):
    """What the user loses; `needs`: without one of these features this one is lost too."""

    words: Said
    needs: tuple[str, ...] = ()


LOSSES: Mapping[str, Loss] = {  # a feature comes after those that it needs
    "sorter": Loss(said("Size Sorter without sizes ends a prompt with an error")),
    "reserve": Loss(said("how much VRAM is left to other programs cannot be set while it runs")),
    "nodes": Loss(said(
        "Headroom's nodes pass their input on and do nothing else, and nothing is recorded")),
    "devices": Loss(said("of several GPUs, Headroom sees only those that PyTorch names"),
                    ("nodes",)),
    "buffers": Loss(said("buffers for streamed weights stay on the GPU"), ("nodes",)),
    "spare": Loss(said("RAM of ComfyUI's cache and of pinned memory is not freed"),
                  ("nodes",)),
    "guard": Loss(said("OOM Guard returns models unguarded"), ("nodes",)),
    "clip": Loss(said("a text encoder that does not fit is not moved to the CPU"),
                 ("guard",)),
    "cast": Loss(said("Cast bf16 returns models unchanged"), ("nodes",)),
    "files": Loss(said("conditioning is not kept on disk, and nothing is advised"), ("nodes",)),
    "server": Loss(said("there are no panel and no routes"), ("nodes",)),
    "record": Loss(said("runs and their peaks are not recorded"), ("server",)),
    "rerun": Loss(said(
        "a prompt that runs out of memory is not run again, the queue is not kept in a file, and "
        "nothing is advised"),
        ("guard", "files", "record")),
    "outputs": Loss(said("a server that is killed in a rerun repeats what had finished"),
                    ("rerun",)),
}

_lost: dict[str, Said] = {}


def check() -> list[Said]:
    """Check the running ComfyUI; return a sentence for each feature that is lost by itself.

    It imports the modules in the table, as the features do. It costs some tens of milliseconds.
    """
    _lost.clear()
    told = []
    for feature, (loss, needs) in LOSSES.items():
        why = next((_lost[need] for need in needs if need in _lost), None)
        lacking = [] if why else broken(CONTRACT[feature])[0]
        if lacking:
            why = _sentence(lacking, loss)
            told.append(why)
        if why:
            _lost[feature] = why
    return told


def lost(feature: str) -> Said | None:
    """Return in a sentence why this feature is lost; None if it is there."""
    return _lost.get(feature)


def losses() -> list[Said]:
    """Return the sentences about all lost features, each once."""
    return list(dict.fromkeys(_lost.values()))


def _sentence(lacking: list[str], loss: Said) -> Said:
    names = list(dict.fromkeys(name.partition("(")[0] for name in lacking))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    symbols, version = ", ".join(names[:SHOWN]) + more, comfyui_version()
    return said("ComfyUI {version} has no {symbols}, or another one than Headroom knows: {loss}",
                version=version, symbols=symbols, loss=loss)


def comfyui_version() -> str:
    try:
        return str(importlib.import_module("comfyui_version").__version__)
    except (ImportError, AttributeError):
        return "of an unknown version"
