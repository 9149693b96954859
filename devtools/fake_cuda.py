"""The fake CUDA driver of tests/fakecuda, as benchmarks and commands steer it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "fakecuda"


def driver_ledger(path: Path) -> Any:
    """The ledger of a running program on fake devices: its `Ledger`, at that file."""
    return _module("ledger").Ledger(path)


def _module(name: str) -> ModuleType:
    """One file of the driver's folder, by its place: nothing puts tests/ on the path."""
    full = f"headroom_fakecuda_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]
