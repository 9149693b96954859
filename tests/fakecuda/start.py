"""Become a program, with the fake libraries already in the process: the launcher's second half."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

# Its CUDA backend has NVIDIA's runtime linked into it, which asks a driver for more than is
# documented; its Triton backend would compile kernels that then do nothing.
KITCHEN, WITHOUT = "comfy_kitchen", ("cuda", "triton")


class _KitchenWithoutKernels(importlib.abc.MetaPathFinder):
    """Lets comfy_kitchen use its PyTorch backend only, in its own way, once it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != KITCHEN:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_switch_off(module: ModuleType) -> None:
                load(module)
                for backend in WITHOUT:
                    module.disable_backend(backend)

            spec.loader.exec_module = load_and_switch_off  # type: ignore[method-assign]
        return spec


def main() -> None:
    sys.meta_path.insert(0, _KitchenWithoutKernels())
    program = Path(sys.argv[1])
    script = program / "main.py" if program.is_dir() else program
    sys.argv = [str(script), *sys.argv[2:]]
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
