"""The libraries that pose as CUDA's, compiled once and kept in the development cache.

This needs a C++ compiler and PyTorch's CUDA 13 wheels: their headers define the layouts, and their
libraries say which functions exist. Nothing of them is copied.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.cache import cache_home, process_lock

SOURCE = Path(__file__).resolve().parent / "src"
# Not more: comfy-aimdo writes hooks into functions, which must not be merged.
FLAGS = ["-std=c++17", "-O1", "-g1", "-fPIC", "-fno-ipa-icf", "-Wall", "-Wextra",
         "-Wno-unused-parameter"]


class CannotBuild(RuntimeError):
    """This machine lacks what the build needs; the text says what."""


@dataclass(frozen=True)
class Library:
    """One library: its file name and SONAME, our sources, and the wheels' own that it replaces."""

    name: str
    sources: tuple[str, ...] = ()
    real: str = ""  # below site-packages/nvidia; what our sources lack: see `others`
    others: str = "success"
    defines: str = ""


DRIVER = ("ledger", "space", "memory", "pool", "context", "streams", "copies", "kernels")
LIBRARIES = (
    Library("libcuda.so.1", DRIVER, others="unsupported"),
    Library("libcudart.so.13", ("runtime", "runtime_same"), "cu13/lib", "unsupported"),
    Library("libcublas.so.13", ("blas",), "cu13/lib", defines="FAKE_cublas"),
    Library("libcublasLt.so.13", ("blas",), "cu13/lib", defines="FAKE_cublasLt"),
    Library("libcufft.so.12", ("blas",), "cu13/lib", defines="FAKE_cufft"),
    Library("libcusparse.so.12", (), "cu13/lib"),
    Library("libcusolver.so.12", ("solver",), "cu13/lib"),
    Library("libcudnn.so.9", ("cudnn",), "cudnn/lib"),
    Library("libnvidia-ml.so.1", ("nvml",), others="none"),
)
SUCCESS = """\
extern int fakecuda_library_call(void);
int prepared(void) { return 0; }
int computed(void) { return fakecuda_library_call(); }
"""
PREPARES = re.compile("Create|Destroy|Set|Get|Finalize|Query|[bB]ufferSize")  # computes nothing
UNSUPPORTED = """\
extern void fakecuda_unsupported(const char *);
#define MISSING(name) \\
    __attribute__((weak)) int name(void) { fakecuda_unsupported(#name); return 801; }
"""


def libraries() -> list[Path]:
    """Return the files to preload, built if they are missing; CannotBuild says why not."""
    compiler, nvidia = _compiler(), wheels()
    folder = cache_home() / f"fakecuda-{_key(compiler, nvidia)}"
    if not folder.exists():
        with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
            if not folder.exists():
                _build(folder, compiler, nvidia)
    return [folder / library.name for library in LIBRARIES]


def why_not(any_python: bool = False) -> str | None:
    """Return why the libraries cannot be built here; None if they can.

    `any_python`: ask only about this machine, not about the Python that will use them.
    """
    try:
        _compiler(), any_python or wheels()
    except CannotBuild as error:
        return str(error)
    return None


def wheels() -> Path:
    """The folder of NVIDIA's wheels beside PyTorch."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "cu13" / "include" / "cuda.h").exists():
            return Path(place)
    raise CannotBuild("the fake CUDA driver needs PyTorch's CUDA 13 wheels, which "
                      f"{sys.executable} has not: name the Python of your ComfyUI with --python")


def _compiler() -> str:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise CannotBuild("the fake CUDA driver needs 64-bit Linux, as WSL and containers are")
    found = shutil.which("g++")
    if not found or not shutil.which("nm"):
        raise CannotBuild("the fake CUDA driver needs g++ and nm (package build-essential)")
    return found


def _key(compiler: str, nvidia: Path) -> str:
    """A name for these sources, this compiler and these wheels."""
    parts = [path.read_bytes() for path in sorted(SOURCE.rglob("*.*"))]
    parts.append(Path(__file__).read_bytes())
    parts.append(subprocess.run([compiler, "--version"], capture_output=True).stdout)
    for library in LIBRARIES:
        if library.real:
            size = (nvidia / library.real / library.name).stat().st_size
            parts.append(f"{library.name} {size}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _build(folder: Path, compiler: str, nvidia: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fakecuda-making-") as made:
        place = Path(made)
        for library in LIBRARIES:
            _make(library, place, compiler, nvidia)
        (place / "libcuda.so").symlink_to("libcuda.so.1")  # the name that Triton links against
        os.chmod(place, 0o755)
        place.rename(folder)
        place.mkdir()  # for the context to remove


def _make(library: Library, place: Path, compiler: str, nvidia: Path) -> None:
    stem = library.name.split(".")[0]
    names, version = _functions(library, compiler, nvidia)
    stubs, script = place / f"{stem}.c", place / f"{stem}.map"
    stubs.write_text(_stubs(library.others, names), encoding="utf-8")
    script.write_text(_version_script(library, names, version), encoding="utf-8")
    include = [f"-I{SOURCE}", f"-I{nvidia}/cu13/include", f"-I{nvidia}/cudnn/include"]
    defines = [f"-D{library.defines}"] if library.defines else []
    driver = [] if library.name == "libcuda.so.1" else [str(place / "libcuda.so.1")]
    sources = [str(SOURCE / f"{name}.cpp") for name in library.sources]
    _run([compiler, "-x", "c", "-w", "-fPIC", "-O1", "-c", stubs, "-o", f"{stubs}.o"])
    _run([compiler, *FLAGS, "-shared", *include, *defines, *sources, f"{stubs}.o", *driver,
          f"-Wl,-soname,{library.name}", f"-Wl,--version-script,{script}", "-ldl", "-pthread",
          "-o", place / library.name])
    for left in (stubs, script, Path(f"{stubs}.o")):
        left.unlink()


def _functions(library: Library, compiler: str, nvidia: Path) -> tuple[list[str], str]:
    """The functions of the real library and the symbol version that they carry."""
    if library.others == "none":
        return [], ""
    if not library.real:
        header = nvidia / "cu13" / "include" / "cuda.h"
        text = _run([compiler, "-E", "-P", "-x", "c", header])
        return sorted(set(re.findall(r"CUresult\s+(cu\w+)\s*\(", text))), ""
    listed = _run(["nm", "-D", "--defined-only", nvidia / library.real / library.name])
    found = re.findall(r" [TWi] (\w+)@@(\S+)", listed)
    return sorted({name for name, _ in found}), found[0][1]


def _stubs(others: str, names: Iterable[str]) -> str:
    """Return C source with a weak definition of every function; our own strong ones win."""
    if others == "unsupported":
        return UNSUPPORTED + "".join(f"MISSING({name})\n" for name in names)
    answers = ((name, "prepared" if PREPARES.search(name) else "computed") for name in names)
    line = 'int {}(void) __attribute__((weak, alias("{}")));\n'
    return SUCCESS + "".join(line.format(*answer) for answer in answers)


def _version_script(library: Library, names: list[str], version: str) -> str:
    """Export these functions, at the version that PyTorch's libraries ask for, and nothing else."""
    if library.name == "libcuda.so.1":
        names = ["cu*", "fakecuda_*"]
    exported = "".join(f" {name};" for name in names or ["nvml*"])
    return f"{version} {{ global:{exported} local: *; }};\n"


def _run(command: Iterable[str | Path]) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise CannotBuild(f"the fake CUDA driver did not compile: {' '.join(words)}\n{done.stderr}")
    return done.stdout
