"""What a fake device is like, and the environment variables that tell the libraries."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .build import libraries

# Kernels do nothing, so the values of weights do not matter: tests of bytes leave them out.
COPIED_KIB = 1024.0
LAUNCHER = Path(__file__).resolve().parent / "main.py"
ALLOCATORS = {
    "native": "backend:native,expandable_segments:False",
    "expandable": "backend:native,expandable_segments:True",
    "async": "backend:cudaMallocAsync",
    "program": None,  # as the program chooses: ComfyUI takes cudaMallocAsync
}


def _setting(variable: str, default: Any, text: str) -> Any:
    return field(default=default, metadata={"variable": variable, "text": text})


@dataclass(frozen=True)
class FakeCuda:
    """Fake devices. Numbers with a comma between them, "8192,4096", are for one device each."""

    capacity_mib: float | str = _setting("FAKECUDA_CAPACITY_MIB", "8192", "memory of a device")
    devices: int = _setting("FAKECUDA_DEVICES", 1, "how many; CUDA_VISIBLE_DEVICES counts too")
    other_mib: float | str = _setting("FAKECUDA_OTHER_MIB", "0", "what another process holds")
    context_mib: float | str = _setting("FAKECUDA_CONTEXT_MIB", "0", "what a CUDA context costs")
    cudnn_workspace_mib: float = _setting(
        "FAKECUDA_CUDNN_WORKSPACE_MIB", 0.0, "workspace that every cuDNN plan asks for"
    )
    cudnn_layout_copies: float = _setting(
        "FAKECUDA_CUDNN_LAYOUT_COPIES", 0.0, "channels-last copies that a convolution makes"
    )
    capability: str = _setting("FAKECUDA_CAPABILITY", "8.6", "compute capability")
    fail_in: int = _setting("FAKECUDA_FAIL_IN", 0, "which allocation from now fails, 0 none")
    fail_times: int = _setting("FAKECUDA_FAIL_TIMES", 1, "how many fail from then on, 0 all")
    fail_above_mib: float = _setting("FAKECUDA_FAIL_ABOVE_MIB", 0.0, "count only such large ones")
    copy_at_most_kib: float = _setting(
        "FAKECUDA_COPY_AT_MOST_KIB", 0.0, "count larger copies, but do not make them; 0 makes all"
    )
    host_pid: int = _setting(
        "FAKECUDA_HOST_PID", 0, "this process's number in NVML, the other process's is next; 0 own"
    )
    ledger: str = _setting("FAKECUDA_LEDGER", "", "file of the ledger, for others to read and set")
    allocator: str = _setting("PYTORCH_CUDA_ALLOC_CONF", "program", " | ".join(ALLOCATORS))

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment of a program on these devices; builds the libraries where needed."""
        files = libraries()
        set_here = {
            one.metadata["variable"]: str(getattr(self, one.name))
            for one in fields(self)
            if one.name != "allocator"
        }
        env = {**base, **set_here, "LD_PRELOAD": ":".join(map(str, files))}
        env["TRITON_LIBCUDA_PATH"] = str(files[0].parent)
        # Waiting threads that spin would take the time from other servers on a busy machine.
        env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        env.setdefault("CUDA_MODULE_LOADING", "LAZY")
        choice = ALLOCATORS[self.allocator]
        if choice is not None:
            env["PYTORCH_CUDA_ALLOC_CONF"] = env["PYTORCH_ALLOC_CONF"] = choice
        return env

    def words(self) -> list[str]:
        """The launcher's arguments that give these devices."""
        given = {one: str(getattr(self, one.name)) for one in fields(self)}
        changed = {_flag(one.name): word for one, word in given.items() if word != str(one.default)}
        return [part for pair in changed.items() for part in pair]


def command(devices: FakeCuda, program: Path, *arguments: str) -> list[str]:
    """The command line that runs a program on these devices."""
    words = [sys.executable, str(LAUNCHER), *devices.words(), str(program), "--"]
    return [*words, *arguments]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def parse_command(words: list[str]) -> tuple[FakeCuda, Path, list[str]]:
    """The devices, the program and its arguments that a command line of the launcher names."""
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description="Start ComfyUI or a script on fake CUDA devices.")
    for one in fields(FakeCuda):
        choices = list(ALLOCATORS) if one.name == "allocator" else None
        parser.add_argument(_flag(one.name), default=one.default, choices=choices,
                            type=type(one.default), help=one.metadata["text"])
    parser.add_argument("program", type=Path, metavar="COMFYUI_DIR_OR_SCRIPT",
                        help="after -- its own arguments")
    found = vars(parser.parse_args(words[:cut]))
    program = Path(os.path.abspath(found.pop("program")))
    if not (program.is_file() or (program / "main.py").exists()):
        parser.error(f"expected a ComfyUI folder with a main.py, or a script, got {program}")
    return FakeCuda(**found), program, words[cut + 1 :]
