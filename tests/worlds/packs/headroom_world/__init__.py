"""A node pack that does what popular packs do with models, loops, caches and the executor.

Each module stands for a habit seen in real packs; none holds anything of this repository's pack.
"""

from . import caches, controls, loops, marks, methods, names, pipes, placed, steps

NODE_CLASS_MAPPINGS = {
    name: found
    for module in (caches, controls, loops, marks, methods, names, pipes, placed, steps)
    for name, found in vars(module).items()
    if name.startswith("World")
}
