"""Every flag of ComfyUI that our words name is one that each ComfyUI under test has."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from devtools.server import known_flags

ROOT = Path(__file__).resolve().parents[2]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
WORDS = [ROOT / "headroom/advise/words.py", ROOT / "headroom/actions/reserve.py",
         ROOT / "headroom/advise/settings.py", *(ROOT / "js/lib").glob("said*.js")]


@pytest.mark.parametrize("tree", ["comfyui", "newest_comfyui"])
def test_each_flag_that_is_advised_exists(request, tree):
    named = {flag for file in WORDS
             for flag in FLAG.findall(file.read_text(encoding="utf-8"))}
    assert {"--reserve-vram", "--fast"} <= named
    assert named <= known_flags(request.getfixturevalue(tree))


def test_flags_are_looked_up_in_comfyuis_own_command_line(monkeypatch):
    comfy, cli_args = ModuleType("comfy"), ModuleType("comfy.cli_args")
    comfy.cli_args = cli_args
    cli_args.args = SimpleNamespace(reserve_vram=None, fast=[])
    monkeypatch.setitem(sys.modules, "comfy", comfy)
    monkeypatch.setitem(sys.modules, "comfy.cli_args", cli_args)
    sys.modules.pop("headroom.host.flags", None)
    from headroom.host import flags

    assert flags.known_flags() == {"--reserve-vram", "--fast"}
    cli_args.args = SimpleNamespace()
    assert flags.known_flags() == frozenset()
    sys.modules.pop("headroom.host.flags")
