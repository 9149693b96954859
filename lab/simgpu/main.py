"""Start ComfyUI, or a Python script, on the simulated GPU.

python lab/simgpu/main.py --capacity-mib N COMFYUI_DIR -- <its arguments>
python lab/simgpu/main.py --capacity-mib N SCRIPT.py -- <its arguments>
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
# What needs a real NVIDIA driver or more than one stream; each only where ComfyUI knows it.
FLAGS = (
    "--disable-async-offload",
    "--disable-pinned-memory",
    "--disable-cuda-malloc",
    "--disable-dynamic-vram",
    "--disable-cuda-graphs",
)


def main() -> None:
    """Switch the device on, then run ComfyUI's main.py or that script."""
    own, program_args = _split(sys.argv[1:])
    options = _options(own)
    # A real GPU in this machine must not be used.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = ""
    # Waiting threads that spin would take the time from other servers on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    simgpu = load_package()
    simgpu.switch_on(options.capacity_mib << 20)
    sys.argv = [*_program(options.program), *program_args]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _program(path: Path) -> list[str]:
    """Return the script to run, and the arguments that ComfyUI needs here."""
    if path.is_file():
        return [str(path)]
    our_node = ["--extra-model-paths-config", str(HERE / "custom_nodes.yaml")]
    return [str(path / "main.py"), *_flags(path), *our_node]


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    cut = words.index("--") if "--" in words else len(words)
    return words[:cut], words[cut + 1 :]


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Start ComfyUI or a script on a simulated GPU."
    )
    parser.add_argument("--capacity-mib", type=int, required=True)
    parser.add_argument("program", type=Path, metavar="COMFYUI_DIR_OR_SCRIPT",
                        help="after -- its own arguments")
    options = parser.parse_args(words)
    path = options.program = options.program.resolve()
    if not (path.is_file() or (path / "main.py").exists()):
        parser.error(f"expected a ComfyUI folder with a main.py, or a script, got {path}")
    return options


def load_package() -> ModuleType:
    """Import this folder as `simgpu`, whatever the current directory is."""
    spec = importlib.util.spec_from_file_location(
        "simgpu", HERE / "__init__.py", submodule_search_locations=[str(HERE)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["simgpu"] = package
    spec.loader.exec_module(package)
    importlib.import_module("simgpu.routes")
    return package


def _flags(tree: Path) -> list[str]:
    source = (tree / "comfy" / "cli_args.py").read_text(encoding="utf-8")
    known = set(re.findall(r"""["'](--[a-z][a-z0-9-]*)["']""", source))
    return [flag for flag in FLAGS if flag in known]


if __name__ == "__main__":
    main()
