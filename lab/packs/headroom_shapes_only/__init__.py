"""A ComfyUI on the simulated GPU that computes shapes only, from its start to its end.

For benchmarks that look for capacities at real sizes.
"""

from simgpu.shapes import shapes_only

NODE_CLASS_MAPPINGS: dict[str, type] = {}

_lasting = shapes_only()
_lasting.__enter__()
