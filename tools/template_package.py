"""Every workflow of the template package that a ComfyUI pins, fetched where it is another one.

Newer packages have the workflows in a part of a few MB, apart from their pictures and videos.
"""

import importlib.metadata
import json
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from .cache import cache_home, process_lock
from .comfyui import required_packages
from .commands import run_logged
from .errors import NotHere
from .ui_prompt import is_workflow

DISTRIBUTION = "comfyui-workflow-templates"
PACKAGE = DISTRIBUTION.replace("-", "_")
JSON_PART = re.compile(rf"{DISTRIBUTION}-json==([0-9.]+)\b")
Json = dict[str, Any]


def templates_of(tree: Path) -> dict[str, Json]:
    """The workflows by their names; NotHere if they are neither here nor available.

    DevError where the download fails.
    """
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files_of(tree)}
    return {name: data for name, data in files.items() if is_workflow(data)}


def files_of(tree: Path) -> list[Path]:
    """The workflows' files of the version that a ComfyUI pins, and an index of them."""
    version = required_packages(tree).get(DISTRIBUTION, "")
    if site := installed(version):
        return sorted(site.glob(f"{PACKAGE}*/templates/*.json"))
    folder = cache_home() / f"workflow-templates-{version}"
    with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
        if not folder.exists():
            _fetch(version, folder)
    return sorted(folder.glob("*.json"))


def installed(version: str = "") -> Path | None:
    """The folder of packages that this version, or any, is installed in."""
    try:
        found = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(found.locate_file(""))) if version in ("", found.version) else None


def _fetch(version: str, folder: Path) -> None:
    """Unpack beside `folder`, then rename: it is there whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        with zipfile.ZipFile(_wheel(f"{DISTRIBUTION}=={version}", scratch / "whole")) as whole:
            [metadata] = [name for name in whole.namelist() if name.endswith(".dist-info/METADATA")]
            part = JSON_PART.search(whole.read(metadata).decode())
        if part is None:
            raise NotHere(f"{DISTRIBUTION} {version} has its workflows beside its videos")
        with zipfile.ZipFile(_wheel(part.group(), scratch / "part")) as archive:
            for name in archive.namelist():
                if re.search(r"/templates/[^/]+\.json$", name):
                    target = scratch / "unpacked" / name.rpartition("/")[2]
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(archive.read(name))
        (scratch / "unpacked").rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _wheel(requirement: str, folder: Path) -> Path:
    run_logged([sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder,
                requirement], f"download of {requirement}")
    return next(folder.glob("*.whl"))
