"""The recorded figures: `benchmarks/results/<device>-<comfyui version>.json`.

One file has the newest figures of one device and ComfyUI: a part for each benchmark, with the
day, the commit and the torch it was measured with. A benchmark that runs again replaces its own
part and no other.
"""

import datetime
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cache import cache_home, process_lock
from .comfyui import version_of_tree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SIMULATED = "simulated GPU"
FAKE = "fake CUDA driver"  # PyTorch's own allocator on it
# What a figure depends on.
MEASURED = ("headroom", "nodes", "lab/simgpu", "lab/fakecuda", "benchmarks",
            ":(exclude)benchmarks/results", ":(exclude)benchmarks/*.md")
Json = dict[str, Any]
Merge = Callable[[Json, Json], Json]  # of what was recorded before and what was measured now


@dataclass(frozen=True)
class Part:
    """What one benchmark found: the figures, and what they were measured on."""

    name: str
    device: str
    comfyui: str
    torch: str
    date: str
    commit: str
    result: Json

    @property
    def simulated(self) -> bool:
        return self.device == SIMULATED

    @property
    def without_gpu(self) -> bool:
        """Measured on a simulated GPU or a fake driver: one table has both."""
        return self.device in (SIMULATED, FAKE)

    @property
    def measured_on(self) -> tuple[str, str, str]:
        """What the parts of one table have in common; a real device has its own table."""
        return "" if self.without_gpu else self.device, self.comfyui, self.torch


def record(
    name: str, result: Json, comfyui: str | Path, device: str = SIMULATED, folder: Path = RESULTS,
    merge: Merge | None = None,
) -> Path:
    """Put one benchmark's figures into the file of this device and this ComfyUI.

    A benchmark that is measured piece by piece merges them with what was recorded of the others,
    if that was measured with the same torch.
    """
    import torch

    version = version_of_tree(Path(comfyui))
    path = folder / f"{slug(device)}-{version}.json"
    folder.mkdir(parents=True, exist_ok=True)
    with process_lock(cache_home() / "locks" / "results.lock"):
        data = _read(path) if path.exists() else {}
        parts = data.get("benchmarks", {})
        before = parts.get(name, {})
        if merge is not None and before.get("torch") == torch.__version__:
            result = merge(before["result"], result)
        parts[name] = {"date": datetime.date.today().isoformat(), "commit": _commits(result),
                       "torch": torch.__version__, "result": result}
        ordered = {key: parts[key] for key in sorted(parts)}
        _write(path, {"device": device, "comfyui": version, "benchmarks": ordered})
    return path


def _commits(result: Json) -> str:
    """The commits at which the pieces of a result were measured; today's if there are none."""
    return ", ".join(dict.fromkeys(_commits_within(result))) or commit()


def _commits_within(result: Json) -> Iterator[str]:
    for key, value in result.items():
        if key == "commit":
            yield value
        elif isinstance(value, dict):
            yield from _commits_within(value)


def recorded(folder: Path = RESULTS) -> list[Part]:
    """What was recorded for each device and ComfyUI, real devices first."""
    found = [part for path in sorted(folder.glob("*.json")) for part in _parts_of(path)]
    return sorted(found, key=lambda part: (
        part.without_gpu, part.measured_on, not part.simulated,
    ))


def of(name: str, tree: Path, device: str = SIMULATED) -> Json:
    """What was recorded of one benchmark on this ComfyUI; nothing where it never was."""
    found = [part.result for part in recorded() if (part.name, part.device, part.comfyui) == (
        name, device, version_of_tree(tree))]
    return found[0] if found else {}


def newest(name: str) -> Part | None:
    """The newest record of one benchmark, on whichever device and ComfyUI."""
    parts = [part for part in recorded() if part.name == name]
    return max(parts, key=lambda part: part.date, default=None)


def _parts_of(path: Path) -> Iterator[Part]:
    """The parts of one file; nothing for a file of another form."""
    data = _read(path)
    for name, part in data.get("benchmarks", {}).items():
        yield Part(name=name, device=data["device"], comfyui=data["comfyui"], **part)


def commit(root: Path = ROOT) -> str:
    """The commit of this tree, with a + where measured files differ from it."""
    head = _git(root, "rev-parse", "--short", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *MEASURED)
    return f"{head}+" if changed else head or "unknown"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def slug(text: str) -> str:
    """The text as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _read(path: Path) -> Json:
    data: Json = json.loads(path.read_text(encoding="utf-8"))
    return data


def _write(path: Path, data: Json) -> None:
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)
