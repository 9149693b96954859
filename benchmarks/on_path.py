"""Let `python benchmarks/NAME.py` import the development tools; imported for that above all."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
if "tools" not in sys.modules:
    sys.path.insert(0, str(ROOT))


def loaded(name: str, folder: Path) -> ModuleType:
    """The package in that folder under that name, imported anew."""
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
