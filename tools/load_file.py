"""Import a Python file by its path; its folder does not come onto `sys.path`."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_file(name: str, file: Path) -> ModuleType:
    """Import the file anew as the module `name`; an `__init__.py` as a package."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
