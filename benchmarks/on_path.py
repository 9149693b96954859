"""Let `python benchmarks/NAME.py` import the development tools."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if "tools" not in sys.modules:
    sys.path.insert(0, str(ROOT))
