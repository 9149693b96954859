"""What lies in `lab/`: GPUs and servers that are not there, and node packs that look at them.

All of it is found by its place: nothing puts `lab/` on the path.
"""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .load_file import load_file

LAB = Path(__file__).resolve().parent.parent / "lab"
PACKS = LAB / "packs"
REAL_GPU_PACK = PACKS / "headroom_real_gpu"
FAKE_CUDA_LAUNCHER = LAB / "fakecuda" / "main.py"
REHEARSAL_VARIABLE = "HEADROOM_REHEARSE_GPU"  # the MiB of a simulated GPU in a real one's place


def rehearsed_mib() -> int | None:
    """The size of the simulated GPU that stands for this machine's own; None outside rehearsals."""
    asked = os.environ.get(REHEARSAL_VARIABLE)
    return int(asked) if asked else None


def simulated(mib: int) -> list[str]:
    """What to give Python before a ComfyUI folder or a script: then it runs on a simulated GPU."""
    return [str(LAB / "simgpu" / "main.py"), "--capacity-mib", str(mib)]


def fake_cuda() -> ModuleType:
    """The package `lab/fakecuda`, to build the driver and to start programs on it."""
    _loaded("simgpu", "simgpu/__init__.py")
    return _loaded("fakecuda", "fakecuda/__init__.py")


def driver_ledger(path: Path) -> Any:
    """The ledger of a running program on fake devices; also for a program that runs on them."""
    return _loaded("headroom_fake_cuda_ledger", "fakecuda/ledger.py").Ledger(path)


def fake_comfy() -> ModuleType:
    """The module with a server that answers as ComfyUI does and computes nothing."""
    return _loaded("fake_comfy", "fake_comfy.py")


def _loaded(name: str, place: str) -> ModuleType:
    return sys.modules.get(name) or load_file(name, LAB / place)
