"""Conditioning in files with names; each file says which encoder made it."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.device import MIB
from ..base.inputs import came, shown
from ..base.said import said, sentence_of
from ..base.stored_value import Damaged, Unstorable, from_bytes, to_bytes
from ..base.untrusted_file import read_untrusted, write_whole
from .conditioning import is_conditioning
from .encoders import Encoder

log = logging.getLogger("headroom")

KEY = "named conditioning"
SUFFIX = ".safetensors"
MAX_NAME = 120
MAX_NAME_BYTES = 240  # the limit of most file systems, less the suffix and a number
MAX_LISTED = 2000
MAX_FILE_BYTES = 4 * 1024 * 1024 * 1024
# Control characters, and surrogates, which no file system can store.
UNWRITABLE = {chr(code) for code in (*range(32), 127, *range(0xD800, 0xE000))}
FORBIDDEN = frozenset('<>:"/\\|?*') | UNWRITABLE


@dataclass(frozen=True)
class Loaded:
    """A conditioning in RAM, and the encoder that made it (empty if not known)."""

    conditioning: Any
    encoders: list[Encoder]


class NotUsable(ValueError):
    """The name or the file cannot be used; the message is one sentence for the user."""

    __module__ = "headroom"  # in ComfyUI's reports, where its own name for ours is a path


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder, sorted; at most some thousand."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name.removesuffix(SUFFIX) for entry in entries
                     if entry.name.endswith(SUFFIX) and os.path.isfile(entry.path)]
    except OSError:
        return []
    return sorted(name for name in found if _plain(name) == name)[:MAX_LISTED]


def file_of(folder: Path, name: Any) -> Path:
    """Return the file for a name. Raises NotUsable for a name that is not valid in one folder."""
    plain = _plain(name)
    if not plain:
        raise NotUsable(said(
            "Save and Load Conditioning expect `name` to be a file name of at most {letters} "
            "letters ({bytes} bytes) without folders, but got {given}.",
            letters=MAX_NAME, bytes=MAX_NAME_BYTES, given=shown(name)))
    return folder / f"{plain}{SUFFIX}"


def _plain(name: Any) -> str:
    """Return a name without the suffix; empty for an invalid one."""
    plain = name.strip().removesuffix(SUFFIX) if isinstance(name, str) else ""
    if len(plain) > MAX_NAME or plain.startswith(".") or FORBIDDEN & set(plain):
        return ""
    return plain if len(plain.encode()) <= MAX_NAME_BYTES else ""


def save(conditioning: Any, file: Path, encoders: list[Encoder]) -> None:
    """Write a conditioning as one safetensors file, all of it or nothing.

    It costs its bytes on disk. Raises NotUsable for a value that is no conditioning or cannot be
    stored safely, and if the disk refuses.
    """
    if not is_conditioning(conditioning):
        raise NotUsable(said(
            "Save Conditioning expects a CONDITIONING on the input `conditioning`, but got {came}: "
            "connect the output of a text encode node.", came=came(conditioning)))
    value = {"conditioning": conditioning, "encoders": encoders}
    try:
        data = to_bytes(value, KEY)
        if len(data) > MAX_FILE_BYTES:  # nobody could load it
            raise Unstorable(said("it has more than {most_mib}", most_mib=MAX_FILE_BYTES / MIB))
        write_whole(file, data)
    except Unstorable as error:
        raise NotUsable(said(
            "Save Conditioning cannot keep this conditioning in a file: {error}; save it before "
            "hooks or other live objects are set on it.", error=sentence_of(error))) from error
    except OSError as error:
        raise NotUsable(said(
            "Save Conditioning could not write {file}: {error}; its folder is {folder}.",
            file=file.name, error=error.strerror or str(error), folder=str(file.parent))) from error


def load(file: Path) -> Loaded:
    """Read a file that Save Conditioning wrote. Raises NotUsable for other files, or if missing."""
    try:
        value = from_bytes(read_untrusted(file, MAX_FILE_BYTES), KEY)
        loaded = Loaded(value["conditioning"], value["encoders"])
    except FileNotFoundError as error:
        raise NotUsable(said(
            "Load Conditioning expects a file {file} in {folder}, but there is none: choose "
            "another name, or save it first.",
            file=shown(file.name), folder=str(file.parent))) from error
    except (OSError, Damaged, KeyError, TypeError) as error:
        raise NotUsable(_not_ours(file)) from error
    if not is_conditioning(loaded.conditioning):
        raise NotUsable(_not_ours(file))
    return loaded


def _not_ours(file: Path) -> str:
    return said(
        "Load Conditioning expects a file that Save Conditioning wrote, but {file} is damaged or "
        "another one: save it again.", file=shown(file.name))
