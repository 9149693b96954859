"""Run a program in a process with the fake libraries: the second half of the launcher."""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import mmap
import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

KITCHEN = "comfy_kitchen"  # whose Triton backend would compile kernels that then do nothing
PAGER = "comfy_aimdo.host_buffer"  # comfy-aimdo's reader of files
MAPPER = "comfy_aimdo.model_mmap"  # and its mapping of them
MAP_NORESERVE = 0x4000  # Linux's, which Python's mmap does not name
COPY_AT_MOST = "FAKECUDA_COPY_AT_MOST_KIB"


def _copied_bytes() -> float:
    """Larger copies are counted and not made; 0 makes all."""
    return float(os.environ.get(COPY_AT_MOST) or 0) * 1024


def _without_kernels(kitchen: ModuleType) -> None:
    """Let comfy_kitchen's CUDA backend allocate what it needs, and compute nothing.

    Its kernels are in a library that asks a driver for more than is documented. Where one of them
    answers, it is whether it can do the work.
    """
    kitchen.disable_backend("triton")
    backend = sys.modules.get(f"{KITCHEN}.backends.cuda")
    kernels = getattr(backend, "_C", None)
    for name in [] if kernels is None else dir(kernels):
        if not name.startswith("_") and callable(getattr(kernels, name)):
            setattr(kernels, name, lambda *_args: True)
    if hasattr(backend, "_wrap_for_dlpack"):
        backend._wrap_for_dlpack = lambda tensor: tensor  # type: ignore[union-attr]


def _without_large_work(torch: Any) -> None:
    """Leave out on the CPU what the driver leaves out: making weights, reading them, casting them,
    computing with them. This is for tensors of 1 MiB and more: a text encoder of some GB then
    encodes in seconds and takes no RAM. With the MALLOC_MMAP_THRESHOLD_ of these servers, memory
    that was never written to is zeros.
    """
    at_most = _copied_bytes()
    copy, to, clone = torch.Tensor.copy_, torch.Tensor.to, torch.Tensor.clone
    times, linear = torch.Tensor.__mul__, torch.nn.functional.linear
    plain = (torch.Tensor, torch.nn.Parameter)

    def is_left_out(tensor: Any) -> bool:
        return bool(tensor.is_cpu and tensor.is_floating_point()
                    and tensor.nbytes >= max(at_most, 1 << 20))

    def copy_(self: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        return self if is_left_out(self) else copy(self, source, *args, **kwargs)

    def cast(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_left_out(self) and type(self) in plain:
            # Module.to(dtype) names the dtype by its place, the second of three.
            is_weight = len(args) == 3 and args[0] is None
            named = kwargs if not args else {"dtype": args[1]} if is_weight else {}
            dtype = named.get("dtype")
            if (dtype not in (None, self.dtype) and not named.keys() - {"dtype", "copy", "device"}
                    and torch.device(named.get("device") or "cpu").type == "cpu"):
                return torch.empty_like(self, dtype=dtype)
        return to(self, *args, **kwargs)

    def cloned(self: Any, **kwargs: Any) -> Any:
        if type(self) in plain and is_left_out(self):
            return torch.empty_like(self, **kwargs)
        return clone(self, **kwargs)

    def scaled(self: Any, scale: Any) -> Any:
        is_one = type(scale) in plain and scale.numel() == 1 and scale.ndim <= self.ndim
        if type(self) in plain and is_one and is_left_out(self):
            return torch.empty_like(self, dtype=torch.result_type(self, scale))
        return times(self, scale)

    def unfilled(fill: Any) -> Any:
        return lambda self, *args, **kwargs: (
            self if is_left_out(self) else fill(self, *args, **kwargs))

    def product(value: Any, weight: Any, bias: Any = None) -> Any:
        if is_left_out(weight) and value.device.type == "cpu":
            return value.new_zeros((*value.shape[:-1], weight.shape[0]))
        return linear(value, weight, bias)

    if at_most:
        torch.Tensor.copy_, torch.Tensor.to, torch.Tensor.clone = copy_, cast, cloned
        torch.Tensor.__mul__, torch.nn.functional.linear = scaled, product
        for name in ("uniform_", "normal_"):  # of weights, before those of a file are there
            setattr(torch.Tensor, name, unfilled(getattr(torch.Tensor, name)))
        _without_reading_ahead(torch)


def _without_reading_ahead(torch: Any) -> None:
    """Map files so that one access reads one page, not megabytes, and reserves no RAM.

    safetensors makes tensors by `torch.asarray`, which reads the first byte of each. Linux refuses
    a writable mapping that is larger than its RAM, unless no RAM has to be reserved for it.
    """
    mapped = torch.UntypedStorage.from_file

    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        if shared or not nbytes:
            return mapped(filename, shared, nbytes)
        with open(filename, "rb") as file:
            memory = mmap.mmap(file.fileno(), nbytes, flags=mmap.MAP_PRIVATE | MAP_NORESERVE,
                               prot=mmap.PROT_READ | mmap.PROT_WRITE)
        memory.madvise(mmap.MADV_RANDOM)
        return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()

    torch.UntypedStorage.from_file = staticmethod(from_file)


def _without_reading_files(host_buffer: Any) -> None:
    """Let the pager read no file: its copies are counted, and the small ones are zeros."""
    at_most = _copied_bytes()
    if not at_most or not hasattr(host_buffer, "read_file_to_device"):
        return
    copy = ctypes.CDLL("libcuda.so.1").cuMemcpyHtoDAsync_v2
    copy.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    zeros = ctypes.create_string_buffer(max(1, int(at_most)))  # which the driver may read

    def counted(
        file: Any, offset: int, size: int, stream: int, to: int, *args: Any, **kwargs: Any
    ) -> Any:
        if copy(int(to), ctypes.addressof(zeros), int(size), None):
            raise RuntimeError("the driver refused a copy")

    host_buffer.read_file_to_device = counted


def _without_mapping_ahead(mapper: Any) -> None:
    """Let what comfy-aimdo maps read one page at a time: Linux may read 8 MiB for one number."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    make = mapper.ModelMMAP.__init__

    def made(self: Any, path: Any) -> None:
        make(self, path)
        advise(self.get(), os.path.getsize(path), mmap.MADV_RANDOM)

    if _copied_bytes():
        mapper.ModelMMAP.__init__ = made


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module as soon as that is imported."""

    def __init__(self, hooks: Mapping[str, Callable[[Any], None]]) -> None:
        self._hooks = hooks

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._hooks:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_call(module: ModuleType) -> None:
                load(module)
                self._hooks[name](module)

            spec.loader.exec_module = load_and_call  # type: ignore[method-assign]
        return spec


def main() -> None:
    hooks = {KITCHEN: _without_kernels, "torch": _without_large_work,
             PAGER: _without_reading_files, MAPPER: _without_mapping_ahead}
    sys.meta_path.insert(0, _AfterImport(hooks))
    for name in sys.modules.keys() & hooks.keys():  # imported before this process was forked
        hooks[name](sys.modules[name])
    program = Path(sys.argv[1])
    script = program / "main.py" if program.is_dir() else program
    sys.argv = [str(script), *sys.argv[2:]]
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
