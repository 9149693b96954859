"""If ComfyUI reads weights from disk, no report says that they are in RAM."""

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from headroom.actions import offload


@pytest.fixture
def reads(monkeypatch):
    """Whether a dynamic model of this patcher is read from disk, with such flags."""
    cli_args, core = ModuleType("comfy.cli_args"), ModuleType("headroom.host.core")
    core.is_dynamic = lambda patcher: patcher.dynamic
    comfy = ModuleType("comfy")
    comfy.cli_args = cli_args
    comfy.model_management = ModuleType("comfy.model_management")
    folders = ModuleType("folder_paths")
    for module in (comfy, cli_args, core, folders, comfy.model_management):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "headroom.host.flags", raising=False)
    flags = importlib.import_module("headroom.host.flags")
    monkeypatch.delitem(sys.modules, "headroom.host.flags")

    def ask(args, dynamic=True, **patcher):
        cli_args.args = SimpleNamespace(**args)
        return flags.reads_from_disk(SimpleNamespace(dynamic=dynamic, **patcher))

    return ask


@pytest.mark.parametrize(("args", "patcher", "expected"), [
    ({}, {}, False),  # 0.3.75
    ({"fast_disk": True}, {}, True),  # 0.33.0
    ({"fast_disk": False}, {}, False),
    ({"fast_disk": False, "disable_fast_disk": False}, {"fast_disk": True}, True),  # newer
    ({"fast_disk": False, "disable_fast_disk": True}, {"fast_disk": True}, False),
    ({"fast_disk": True}, {"dynamic": False}, False),  # a classic model has its weights in RAM
])
def test_a_model_is_read_from_disk_where_comfyui_says_so(reads, args, patcher, expected):
    assert reads(args, **patcher) is expected


def test_the_report_says_whether_weights_went_to_ram_or_disk():
    assert "for RAM" in offload._headline(1 << 20, "CPU", "this model", False)
    assert "back from disk" in offload._headline(1 << 20, "CPU", "this model", True)
    assert "for disk" in offload._headline(1 << 20, "disk", "this model", True)
