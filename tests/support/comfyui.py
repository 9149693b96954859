"""Modules of ComfyUI that are not here, and modules of headroom/host/ made anew on top of them."""

import importlib
import sys
from types import ModuleType

import headroom.host


def stand_in(monkeypatch, path, **contents):
    """A module of this path with these contents, for one test."""
    module = ModuleType(path)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, path, module)
    parent, _, name = path.rpartition(".")
    if parent and not parent.startswith("/"):
        if parent not in sys.modules:
            stand_in(monkeypatch, parent)
        monkeypatch.setattr(sys.modules[parent], name, module, raising=False)
    return module


def on_comfyui(monkeypatch, *names, **modules):
    """The last of these modules of headroom/host/, all made anew on a ComfyUI of `modules`.

    Each is {its path with __ for a dot: its contents}; the paths of our own begin with ours.
    """
    for path, contents in modules.items():
        path = path.replace("__", ".")
        stand_in(monkeypatch, path.replace("ours.", "headroom.host."), **contents)
    for name in names:
        path = f"headroom.host.{name}"
        monkeypatch.setitem(sys.modules, path, None)  # it is forgotten afterwards
        monkeypatch.setattr(headroom.host, name, None, raising=False)
        del sys.modules[path]
    return [importlib.import_module(f"headroom.host.{name}") for name in names][-1]
