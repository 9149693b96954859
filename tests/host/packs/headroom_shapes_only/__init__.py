"""A ComfyUI on the simulated GPU that computes shapes only, from its start to its end.

For benchmarks that look for capacities at real sizes: see shapes.py in headroom_oom_probe.
"""

import importlib.util
from pathlib import Path

NODE_CLASS_MAPPINGS: dict[str, type] = {}
SHAPES = Path(__file__).resolve().parents[1] / "headroom_oom_probe" / "shapes.py"


def _module():
    spec = importlib.util.spec_from_file_location("headroom_shapes", SHAPES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_lasting = _module().shapes_only()
_lasting.__enter__()
