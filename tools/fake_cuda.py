"""The fake CUDA driver of lab/fakecuda, as benchmarks and commands use it.

Both are found by their place: nothing puts lab/ on the path.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

LAB = Path(__file__).resolve().parent.parent / "lab"


def fake_cuda() -> ModuleType:
    """The whole package, to build the driver and to start programs on it."""
    for name in ("simgpu", "fakecuda"):
        if name not in sys.modules:
            folder = LAB / name
            _load(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    return sys.modules["fakecuda"]


def driver_ledger(path: Path) -> Any:
    """The ledger of a running program on fake devices; also for a program that runs on them."""
    name = "headroom_fake_cuda_ledger"
    if name not in sys.modules:
        _load(name, LAB / "fakecuda" / "ledger.py")
    return sys.modules[name].Ledger(path)


def _load(name: str, file: Path, **options: Any) -> None:
    spec = importlib.util.spec_from_file_location(name, file, **options)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
