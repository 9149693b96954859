"""Nodes for the tests and benchmarks of OOM Guard: sweeps of failing allocations, tiny models.

They run inside a ComfyUI on the simulated GPU and compare every run with an unguarded, unfailed
one. Answers are JSON in the node's `ui` text.
"""

from . import capacity, dit, overhead, parts, patches, rescue, sampling, sound, streaming

NODE_CLASS_MAPPINGS = {
    name: found
    for module in (capacity, dit, overhead, parts, patches, rescue, sampling, sound, streaming)
    for name, found in vars(module).items()
    if name.startswith("Oom")
}
