"""Run benchmarks one after the other and record each; inside the environment.

A benchmark is a module of `benchmarks/` with NAME, `add_arguments(parser)` and
`run(args) -> dict`, raising NotHere where this machine or this ComfyUI cannot show it. DEVICE names
what it is measured on where that is always the same. What it lists under `problems` is recorded as
well, and the benchmark has failed. One that can be measured piece by piece has
`merged(recorded, found) -> dict`, and its pieces say at which `commit`. One that measures a real
GPU too has REHEARSAL, the arguments with which it takes seconds.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import bench_rows, bench_tables, results
from .errors import NotHere
from .lab import REHEARSAL_VARIABLE
from .load_file import load_file

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
REHEARSAL_MIB = 16384


def load(name: str) -> ModuleType:
    """Import the benchmark of that file name."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # some share a helper module
    return load_file(f"bench_{name}", FOLDER / f"{name}.py")


def arguments(module: Any, words: Sequence[str], device: str = "") -> argparse.Namespace:
    """The benchmark's own arguments, `--comfyui` and the device; NotHere where it knows it not."""
    parser = argparse.ArgumentParser(description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    parser.add_argument("--comfyui", default=os.environ.get("COMFYUI_PATH"), help="ComfyUI tree")
    if device and device not in known:
        raise NotHere(f"it measures the CPU or the simulated GPU: run it without {device}")
    return parser.parse_args([*words, *([device] if device else [])])


def run_one(
    module: Any, words: Sequence[str], device: str = "", keep: bool = True
) -> bool:
    """Measure one benchmark and record it, unless told not to `keep` it; False when it failed."""
    started = time.monotonic()
    print(f"{module.NAME}: running", flush=True)
    try:
        args = arguments(module, words, device)
        found = module.run(args)
    except NotHere as reason:
        print(f"{module.NAME}: skipped, {reason}", flush=True)
        return True
    except Exception:  # noqa: BLE001 - said and counted; the next benchmark may still run
        traceback.print_exc()
        print(f"{module.NAME}: FAILED after {time.monotonic() - started:.0f} s", flush=True)
        return False
    kept = "not recorded"
    if keep:
        device_name = getattr(module, "DEVICE", None) or _device(args)
        path = results.record(module.NAME, found, args.comfyui, device_name,
                              merge=getattr(module, "merged", None))
        kept = f"recorded in {path.name}"
    print(f"{module.NAME}: {time.monotonic() - started:.0f} s, {kept}", flush=True)
    for what, figure in bench_rows.rows_of(module.NAME, found, bench_rows.english):
        print(f"  {what}: {figure}", flush=True)
    problems = found.get("problems", ())
    for problem in problems:
        print(f"{module.NAME}: PROBLEM {problem}", flush=True)
    return not problems


def _device(args: argparse.Namespace) -> str:
    """What the figures are of, as the tables name it."""
    if getattr(args, "gpu", False):
        import torch

        return str(torch.cuda.get_device_name())
    return results.FAKE if getattr(args, "fake_cuda", False) else results.SIMULATED


def alone() -> None:
    """What `python benchmarks/NAME.py` does: print the figures; `--write` records them too."""
    module = sys.modules["__main__"]
    words = [word for word in sys.argv[1:] if word != "--write"]
    if len(words) < len(sys.argv) - 1:
        done = run_one(module, words)
        bench_tables.publish()
        sys.exit(int(not done))
    found = module.run(arguments(module, words))
    print(json.dumps(found, indent=1, ensure_ascii=False))
    sys.exit(int(bool(found.get("problems"))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", dest="device", action="store_const", const="--gpu", default="")
    parser.add_argument("--fake-cuda", dest="device", action="store_const", const="--fake-cuda")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    if options.rehearse:
        return _rehearse(options.names)
    if options.device == "--gpu" and not _has_gpu():
        print("Error: --gpu needs a GPU that torch can use, and this machine shows none.",
              file=sys.stderr)
        return 2
    return _failures(options.names, lambda module: run_one(module, [], options.device))


def _rehearse(names: Iterable[str]) -> int:
    """Do what `--gpu` does on a simulated GPU with small sizes, and record nothing."""
    os.environ[REHEARSAL_VARIABLE] = str(REHEARSAL_MIB)
    return _failures(names, lambda module: run_one(
        module, getattr(module, "REHEARSAL", ()), "--gpu", keep=False
    ))


def _failures(names: Iterable[str], run: Callable[[ModuleType], bool]) -> int:
    failed = [name for name in names if not run(load(name))]
    if failed:
        print(f"FAILED: {', '.join(failed)}", flush=True)
    return int(bool(failed))


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


if __name__ == "__main__":
    raise SystemExit(main())
