"""The fake CUDA driver of lab/fakecuda, as benchmarks and commands use it.

Both are found by their place: nothing puts lab/ on the path.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .load_file import load_file

LAB = Path(__file__).resolve().parent.parent / "lab"


def fake_cuda() -> ModuleType:
    """The whole package, to build the driver and to start programs on it."""
    for name in ("simgpu", "fakecuda"):
        if name not in sys.modules:
            load_file(name, LAB / name / "__init__.py")
    return sys.modules["fakecuda"]


def driver_ledger(path: Path) -> Any:
    """The ledger of a running program on fake devices; also for a program that runs on them."""
    name = "headroom_fake_cuda_ledger"
    if name not in sys.modules:
        load_file(name, LAB / "fakecuda" / "ledger.py")
    return sys.modules[name].Ledger(path)
