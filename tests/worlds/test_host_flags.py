"""Every flag of ComfyUI that our texts name exists in each ComfyUI under test."""

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from headroom.base.error_table import TABLE
from tools.server import known_flags

ROOT = Path(__file__).resolve().parents[2]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
WORDS = [*(ROOT / "headroom/advise").glob("*.py"), ROOT / "headroom/actions/reserve.py",
         ROOT / "locales/zh/main.json"]


@pytest.mark.parametrize("tree", ["comfyui", "newest_comfyui"])
def test_each_flag_that_is_advised_exists(request, tree):
    named = {flag for file in WORDS
             for flag in FLAG.findall(file.read_text(encoding="utf-8"))}
    assert "--cache-none" in named
    looked_up = {"--fast-disk", "--disable-fast-disk", "--vram-headroom", "--high-ram"}  # before
    assert named - looked_up <= known_flags(request.getfixturevalue(tree))


def test_each_flag_that_the_table_of_errors_looks_up_is_one_of_a_comfyui(comfyui, newest_comfyui):
    helps = json.loads(TABLE.read_text(encoding="utf-8"))["do"].values()
    named = {flag for one in helps for flag in one.get("flags", ())}
    newer = {"--disable-comfy-compiler"}  # than both of these
    assert named - known_flags(newest_comfyui) - known_flags(comfyui) == newer
    assert all(("{flag}" in one["text"]) == bool(one.get("flags")) for one in helps)


def test_only_flags_of_comfyuis_own_command_line_that_would_help_are_found(monkeypatch):
    comfy, cli_args = ModuleType("comfy"), ModuleType("comfy.cli_args")
    comfy.cli_args = cli_args
    cli_args.args = SimpleNamespace(reserve_vram=None, fast=[], cache_none=True)
    comfy.model_management = ModuleType("comfy.model_management")
    for module in (comfy, cli_args, comfy.model_management, ModuleType("folder_paths")):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    sys.modules.pop("headroom.host.flags", None)
    flags = importlib.import_module("headroom.host.flags")
    assert flags.more_flags() == {"--reserve-vram", "--fast"}  # the other one is given already
    cli_args.args = SimpleNamespace()
    assert flags.more_flags() == frozenset()
    paged = {"fast_disk": False, "vram_headroom": 0, "reserve_vram": None}
    cli_args.args = SimpleNamespace(**paged)
    assert flags.more_flags() == {"--reserve-vram"}  # the others act on dynamic VRAM
    monkeypatch.setattr(flags, "has_dynamic_vram", lambda: True)
    assert flags.more_flags() == {"--reserve-vram", "--vram-headroom", "--fast-disk"}
    cli_args.args = SimpleNamespace(**{**paged, "vram_headroom": 2.0, "reserve_vram": 4.0})
    assert flags.more_flags() == {"--fast-disk"}  # a smaller number would take VRAM from others
    cli_args.args = SimpleNamespace(fast_disk=False, disable_fast_disk=True)
    assert flags.more_flags() == frozenset()  # one overrides the other
    sys.modules.pop("headroom.host.flags")
