"""Bytes that this process has in use on the C heap: what resident memory says without its holes.

Exact where glibc gives out all memory: with PYTHONMALLOC=malloc Python's own objects are counted
too. Elsewhere there is no such figure.
"""

import ctypes
import functools
import gc
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

TENSORS = 1000


def in_use_bytes():
    """What `malloc` has given out and has not got back, in all arenas; None without glibc."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(libc, "malloc_info"):
        return None
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    libc.open_memstream.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    told = ElementTree.fromstring(text.value)
    libc.free(text)
    total = {each.get("type"): int(each.get("size")) for each in told.findall("total")}
    system = {each.get("type"): int(each.get("size")) for each in told.findall("system")}
    return system["current"] - total["fast"] - total["rest"] + total["mmap"]


@functools.cache
def kept_bytes_a_tensor():
    """What reading one tensor of a file leaves behind for good: two integers (safetensors 0.8).

    Read from a file of 1,000 tensors, of which the first round is not counted.
    """
    import safetensors
    import safetensors.torch
    import torch

    def read():
        with safetensors.safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safe_open is no dict
                file.get_tensor(name)
        gc.collect()
        return in_use_bytes()

    if in_use_bytes() is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.safetensors"
        tensors = {f"t{number}": torch.zeros(300) for number in range(TENSORS)}
        safetensors.torch.save_file(tensors, path)
        read()
        before = read()
        return (read() - before) / TENSORS
