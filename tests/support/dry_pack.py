"""One module of the pack of a dry run: the pack itself needs a ComfyUI."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from tools import dry_server

FOLDER = Path(dry_server.__file__).parent / "packs" / "headroom_dry"


def dry_part(name: str) -> ModuleType:
    """Import it anew, by the end of its name."""
    package = ModuleType("headroom_dry_parts")
    package.__path__ = [str(FOLDER)]
    for old in [one for one in sys.modules if one.startswith(package.__name__)]:
        del sys.modules[old]
    sys.modules[package.__name__] = package
    return importlib.import_module(f"{package.__name__}.headroom_dry_{name}")
