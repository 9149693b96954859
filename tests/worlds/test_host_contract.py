"""What headroom/host/ uses of ComfyUI is in one table (that each has it: test_moved_host.py)."""

import ast
import asyncio
import inspect
import logging
import os
import pathlib
import sys
import threading
import types
from concurrent.futures import Executor

import torch
from aiohttp import web

from headroom.host import contract, symbols

HOST = pathlib.Path(contract.__file__).parent
PACK = HOST.parent
ROOTS = {"comfy", "comfy_api", "comfy_execution", "comfy_extras", "execution", "folder_paths",
         "nodes", "server"}
# Whose attributes may be read without being ComfyUI's.
OTHERS = (str, dict, list, type, os, asyncio, asyncio.Task, asyncio.AbstractEventLoop, inspect,
          inspect.Parameter, logging.Handler, logging.Logger, logging.makeLogRecord({}),
          pathlib.Path, os.stat_result, sys, threading, torch, torch.Tensor, torch.nn,
          torch.nn.Linear(1, 1), types.CodeType, types.FrameType, types.MethodType,
          types.TracebackType, Executor,
          torch.cuda, torch.device, web, web.Application, web.Request)
NOT_OBJECTS = {  # modules of the standard library, of which not every attribute is meant
    "import_module", "metadata", "PackageNotFoundError", "uuid4", "monotonic", "wraps", "S_ISDIR",
    "S_ISREG", "set", "scale", "_call_fn",  # of a ContextVar; of spandrel's descriptors
}
NODE_CLASS = {  # what a node class has, or not: V1 and V3 alike
    "API_NODE", "FUNCTION", "GET_BASE_CLASS", "INPUT_IS_LIST", "INPUT_TYPES", "IS_CHANGED",
    "NOT_IDEMPOTENT", "OUTPUT_IS_LIST", "OUTPUT_NODE", "RELATIVE_PYTHON_MODULE", "RETURN_TYPES",
    "SCHEMA",
}


def test_a_symbol_that_is_gone_or_takes_other_parameters_is_found(tmp_path, monkeypatch):
    (tmp_path / "a_host.py").write_text(
        "class Model:\n"
        "    def __init__(self): self.loaded: bool = False\n"
        "    def unload(self, device, wanted=0): return self.loaded == wanted\n"
        "def unload(device): ...\n"
        "def is_new(): ...\n"
        "def clean(modules): ...\n"
        "def pin(modules): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    lacking = symbols.broken({
        "a_host": ("Model", "unload(_)", "gone", "?is_oom(_)", "unload(_, _)",
                   "?unload(wanted=_)", "?is_new(_)", "?clean(_, _)", "?clean(_)",
                   "?pin()", "?pin(_, _)"),
        "a_host.Model": ("loaded", "unload(_, _)", "unload(..., wanted=_)", "unload(..., want=_)",
                         "lost"),
        "?no_such_module_anywhere.Thing": ("call()",),
    })
    assert lacking == (
        ["a_host.gone", "a_host.unload(_, _)", "a_host.is_new(_)", "a_host.pin()",
         "a_host.pin(_, _)", "a_host.Model.unload(..., want=_)", "a_host.Model.lost"],
        ["a_host.is_oom(_)", "a_host.unload(wanted=_)", "a_host.clean(_, _)",
         "no_such_module_anywhere.Thing.call()"],
    )


def paths():
    """Every dotted name that the table has."""
    owners = [(owner.removeprefix("?"), members) for feature in contract.CONTRACT.values()
              for owner, members in feature.items()]
    named = {f"{owner}.{member.removeprefix('?').partition('(')[0]}"
             for owner, members in owners for member in members}
    return named | {path[:end] for path in [*dict(owners), *named]
                    for end, letter in enumerate(path + ".") if letter == "."}


def used():
    """(names of ComfyUI in full, attributes of any object) that the source uses, each with where.

    An import inside of a try, and `import_module`, `getattr` and `hasattr` with a constant, too.
    """
    full, attributes = {}, {}
    for file in sorted(HOST.glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        aliases = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    top = name.name if name.asname else name.name.partition(".")[0]
                    aliases[name.asname or top] = top
                    full[name.name] = file.name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for name in node.names:
                    path = f"{node.module}.{name.name}"
                    aliases[name.asname or name.name] = full[path] = path
                    full[path] = file.name
        if file.name in ("contract.py", "symbols.py"):
            continue

        def dotted(node, aliases=aliases):
            if isinstance(node, ast.Name):
                return aliases.get(node.id, "")
            base = dotted(node.value) if isinstance(node, ast.Attribute) else ""
            return f"{base}.{node.attr}" if base else ""

        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                path = dotted(node)
                (full if path else attributes)[path or node.attr] = file.name
            elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                words = [one.value for one in node.args
                         if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("getattr", "hasattr"):
                    base = dotted(node.args[0])
                    for word in words[:1]:
                        (full if base else attributes)[f"{base}.{word}".lstrip(".")] = file.name
                elif name in ("import_module", "_function"):
                    full[".".join(words)] = file.name
    ours = {path: where for path, where in full.items() if path.partition(".")[0] in ROOTS}
    return {path.replace("execution.nodes", "nodes"): at for path, at in ours.items()}, attributes


def own_names():
    """What our own classes and functions are called, and the attributes that they set."""
    for file in PACK.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def test_every_symbol_that_the_source_uses_is_in_the_table():
    full, attributes = used()
    known = paths()
    names = {path.rpartition(".")[2] for path in known}
    allowed = names | NODE_CLASS | NOT_OBJECTS | set(own_names()) | {
        name for thing in OTHERS for name in dir(thing)}

    def is_known(path):
        """In the table, or an attribute that is, or is a dict's, of something in the table."""
        before, _, name = path.rpartition(".")
        return path in known or (bool(before) and name in allowed and is_known(before))

    unknown = {path: file for path, file in full.items() if not is_known(path)}
    unknown |= {name: file for name, file in attributes.items() if name not in allowed}
    assert not unknown, f"write into headroom/host/contract.py: {unknown}"


def test_the_table_has_nothing_that_the_source_does_not_use():
    words = {
        value
        for file in PACK.rglob("*.py") if file.name != "contract.py"
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        for _, value in ast.iter_fields(node) if isinstance(value, str)
    }
    for member in [one for feature in contract.CONTRACT.values()
                   for members in feature.values() for one in members]:
        call = ast.parse(member.removeprefix("?"), mode="eval")
        wanted = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} - {"_"}
        wanted |= {node.arg for node in ast.walk(call) if isinstance(node, ast.keyword)}
        assert wanted <= words, member
