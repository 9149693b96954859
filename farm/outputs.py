"""The files of a finished prompt: brought from its server, and put in place in one step.

A prompt is finished when its folder stands under its final name, which one rename does: before it
there is nothing, after it everything, and a second run of the same prompt finds it there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from .words import Json

PARTIAL = ".partial"
RESULT = "result.json"
Download = Callable[[dict[str, str]], AsyncIterator[bytes]]


def files_of(entry: Json) -> Iterator[dict[str, str]]:
    """Yield what `/view` wants to know of each file that a run saved, previews left out."""
    seen = set()
    for output in entry.get("outputs", {}).values():
        for items in output.values():
            for item in items if isinstance(items, list) else ():
                if not isinstance(item, dict) or item.get("type") != "output":
                    continue
                query = {name: str(item.get(name, "")) for name in ("filename", "subfolder")}
                if query["filename"] and tuple(query.values()) not in seen:
                    seen.add(tuple(query.values()))
                    yield {**query, "type": "output"}


def place_of(query: dict[str, str]) -> Path:
    """Return where a file goes below its prompt's folder, whatever the server calls it.

    The farm's own word for that server, at the front, is left out.
    """
    words = f"{query['subfolder']}/{query['filename']}".replace("\\", "/").split("/")
    kept = [word.replace(":", "_") for word in words[words[0].startswith("@"):]
            if word not in ("", ".", "..")]
    return Path(*kept) if kept and kept != [RESULT] else Path("files", *kept or ["unnamed"])


async def bring(download: Download, entry: Json, folder: Path, about: Json) -> None:
    """Write every file of a run below a new `folder`, and `result.json` with what is known of it.

    Whatever an attempt before this one has left there is gone.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [await _write(folder, place_of(query), download(query)) for query in files_of(entry)]
    about = {**about, "files": files, "outputs": entry.get("outputs", {})}
    await _write(folder, Path(RESULT), _once(json.dumps(about, indent=1).encode()))


def commit(folder: Path, final: Path) -> bool:
    """Put a prompt's folder in place; False when the prompt was finished before."""
    if final.exists():
        shutil.rmtree(folder, ignore_errors=True)
        return False
    os.rename(folder, final)
    return True


def finished_keys(results: Path) -> set[str]:
    return {path.parent.name for path in results.glob(f"*/{RESULT}")}


def sync(folder: Path) -> None:
    """Have the names in a folder safe on disk: once for as many results as came at once."""
    if os.name == "nt":
        return  # a folder cannot be opened there
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _write(folder: Path, place: Path, pieces: AsyncIterator[bytes]) -> Json:
    path, digest, count = folder / place, hashlib.sha256(), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        async for piece in pieces:
            file.write(piece)
            digest.update(piece)
            count += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return {"name": place.as_posix(), "bytes": count, "sha256": digest.hexdigest()}
