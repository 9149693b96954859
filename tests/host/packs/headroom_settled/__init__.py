"""What a server has imported is there for good: no later collection need look at it.

A full collection over all of torch and ComfyUI takes 0.3 s, and the tests cause thousands.
"""

import gc

gc.collect()
gc.freeze()

NODE_CLASS_MAPPINGS: dict[str, type] = {}
