"""What released ComfyUIs have of the symbols in headroom/host/contract.py, and how it is noted.

    python tests/support/releases.py COMFYUI_FOLDER…

Give the folder of each release (`git worktree add` in a clone of ComfyUI), to a Python that can run
the newest; 53 take 8 minutes. It writes worlds/releases.json, from which `lacks` makes
stand-ins: by owner and member a list of [the first version with this form, the form]; "" is the
owner itself.
"""

import asyncio
import functools
import importlib
import inspect
import itertools
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "worlds" / "releases.json"


def members():
    """By owner: the names that the contract has of it, but for packages beside ComfyUI."""
    from headroom.host import contract

    found = {}
    features = contract.CONTRACT.values()
    for owner, names in itertools.chain(*(feature.items() for feature in features)):
        if "comfy_aimdo" not in owner:
            found.setdefault(owner.removeprefix("?"), set()).update(
                name.removeprefix("?").partition("(")[0] for name in names)
    return found


def look(tree):
    """Return (the version of ComfyUI in `tree`, {owner: {member: its form}}); None: not there."""
    sys.path[:0] = [str(tree)]
    sys.argv[1:] = ["--cpu"]
    import comfy.options
    comfy.options.enable_args_parsing()
    # `utils` first: a package beside ComfyUI has a module of that name, too.
    _, comfyui_version, nodes, server = map(importlib.import_module, (
        "utils.extra_config", "comfyui_version", "nodes", "server"))
    server.PromptServer(asyncio.new_event_loop())
    asyncio.run(nodes.init_extra_nodes(init_custom_nodes=False))
    sys.path.append(str(ROOT))
    from headroom.host import symbols

    forms = {}
    for path, names in members().items():
        module, owner = symbols._find(path)
        kind = ("module" if inspect.ismodule(owner) else "class" if inspect.isclass(owner)
                else None if owner is None else "object")
        forms[path] = {"": kind, **{name: None if owner is None else form(
            owner, name, symbols._is_set(module, owner, name)) for name in sorted(names)}}
    return comfyui_version.__version__, forms


def form(owner, name, is_set):
    """"value"; a call's parameters: "a, b=, *c, d=, **e", after "static " if no self is bound."""
    if not hasattr(owner, name):
        return "value" if is_set else None
    try:
        signature = inspect.signature(getattr(owner, name))
    except (TypeError, ValueError):
        return "value"
    parameters, given = list(signature.parameters.values()), []
    for before, one in itertools.pairwise([None, *parameters]):
        opens = before is None or before.kind not in (one.VAR_POSITIONAL, one.KEYWORD_ONLY)
        if one.kind is one.KEYWORD_ONLY and opens:
            given.append("*")
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        given.append(stars + one.name + "=" * (one.default is not one.empty))
    is_method = inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, name))
    return "static " * (inspect.isclass(owner) and not is_method) + f"({', '.join(given)})"


def versions():
    return noted()["versions"]


@functools.cache
def noted():
    return json.loads(FILE.read_text("utf-8"))


def lacks(version):
    """What `symbols.broken` says of a release: (what it lacks, the "?" symbols that it lacks).

    What is not ComfyUI's own, comfy-aimdo, it lacks here.
    """
    from headroom.host import contract, symbols

    def at(changes):
        order = versions().index
        return next(form for since, form in reversed(changes) if order(since) <= order(version))

    def find(path):
        noted_of = noted()["owners"].get(path, {"": [[version, None]]})
        kind = at(noted_of[""])
        owner = kind and stand_in(kind)
        for member, changes in noted_of.items() if owner else ():
            if member and (form := at(changes)) is not None:
                setattr(owner, member, stand_in(form))
        return types.ModuleType("noted"), owner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbols, "_find", find)
        return [[one for found in each for one in found] for each in zip(
            *map(symbols.broken, contract.CONTRACT.values()), strict=True)]


def parameters(text):
    """What `form` wrote, as parameters."""
    kind, found = inspect.Parameter.POSITIONAL_OR_KEYWORD, []
    for word in text.strip("()").split(", ") if text != "()" else []:
        name, stars = word.strip("*="), word.count("*")
        if stars == 1:
            kind = inspect.Parameter.KEYWORD_ONLY
        if name:
            found.append(inspect.Parameter(
                name, inspect.Parameter.VAR_KEYWORD if stars == 2 else
                inspect.Parameter.VAR_POSITIONAL if stars else kind,
                default=None if word.endswith("=") else inspect.Parameter.empty))
    return found


def stand_in(form):
    """An object that looks like the noted one."""
    if form in ("value", "object"):
        return types.SimpleNamespace()
    if form in ("class", "module"):
        return type("Noted", (), {}) if form == "class" else types.ModuleType("noted")
    function = lambda *given, **named: None  # noqa: E731
    function.__signature__ = inspect.Signature(parameters(form.removeprefix("static ")))
    return staticmethod(function) if form.startswith("static ") else function


def main(trees):
    seen = []
    for tree in trees:
        done = subprocess.run([sys.executable, __file__, "--look", tree], cwd=tree,
                              capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{tree} does not start: {done.stderr.strip().splitlines()[-1]}")
        seen.append(json.loads(done.stdout.splitlines()[-1]))
    seen.sort(key=lambda one: [int(part) for part in one[0].split(".")])
    owners = {}
    for version, forms in seen:
        for owner, names in forms.items():
            for name, told in names.items():
                changes = owners.setdefault(owner, {}).setdefault(name, [])
                if not changes or changes[-1][1] != told:
                    changes.append([version, told])
    lines = [f" {json.dumps(owner)}: {{\n" + ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(changes)}" for name, changes in names.items()) + "\n }"
        for owner, names in sorted(owners.items())]
    FILE.write_text('{"versions": ' + json.dumps([version for version, _ in seen]) +
                    ',\n"owners": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look"]:
        print(json.dumps(look(sys.argv[2])))
    else:
        main(sys.argv[1:])
