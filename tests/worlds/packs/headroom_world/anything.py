"""The type that fits every other one, as packs write it, and what nodes have in common."""

import runpy
from pathlib import Path

PACKS = Path(__file__).resolve().parents[4] / "lab" / "packs"
SHARED = runpy.run_path(str(PACKS / "node.py"))
ANYTHING, Node = SHARED["ANY"], SHARED["Node"]
