"""The live reserve: where comfy-aimdo offers it, and nowhere else."""

import sys

import pytest
from support.comfyui import stand_in
from support.hosts import Host

from headroom.actions import reserve as actions
from headroom.base.device import MIB
from headroom.base.said import NotKnown
from headroom.host import reserve
from headroom.measure.snapshot import DeviceMemory, Snapshot

LEAST = 256 * MIB


@pytest.fixture
def control(monkeypatch):
    """comfy_aimdo.control as 0.6.0 has it: one value, at least 256 MiB in effect."""
    module = stand_in(
        monkeypatch, reserve.CONTROL, value=512 * MIB,
        get_simple_vram_headroom=lambda: module.value,
        set_simple_vram_headroom=lambda wanted: setattr(module, "value", max(wanted, LEAST)))
    return module


@pytest.fixture
def host(monkeypatch):
    card = DeviceMemory("cuda:0", "Card", 8000 * MIB, 1, 1, 1, 1)
    monkeypatch.setattr(actions, "snapshot", lambda: Snapshot((card,), 1, 1))
    found = Host()
    found.reserve_bytes, found.set_reserve_bytes = reserve.reserve_bytes, reserve.set_reserve_bytes
    monkeypatch.setattr(actions, "current_host", lambda: found)
    monkeypatch.setattr(reserve, "has_dynamic_vram", lambda: True)


def test_setting_the_reserve_returns_the_value_in_effect(control, host):
    assert actions.reserve_mib() == 512
    assert actions.set_reserve(2000) == 2000 and actions.reserve_mib() == 2000
    assert actions.set_reserve(0) == 256 and control.value == LEAST


def test_more_than_the_card_has_is_refused_and_changes_nothing(control, host):
    with pytest.raises(ValueError, match="Expected `mib` to be at most 8000"):
        actions.set_reserve(8001)
    assert control.value == 512 * MIB


@pytest.mark.parametrize("name", ["get_simple_vram_headroom", "set_simple_vram_headroom"])
def test_an_older_aimdo_offers_nothing(control, host, name):
    delattr(control, name)
    assert actions.reserve_mib() is None
    with pytest.raises(NotKnown, match="offers no live reserve"):
        actions.set_reserve(1000)


def test_without_dynamic_vram_or_the_module_nothing_is_offered(control, host, monkeypatch):
    monkeypatch.setattr(reserve, "has_dynamic_vram", lambda: False)
    assert actions.reserve_mib() is None
    monkeypatch.setattr(reserve, "has_dynamic_vram", lambda: True)
    monkeypatch.delitem(sys.modules, reserve.CONTROL)
    assert actions.reserve_mib() is None


def test_outside_of_comfyui_nothing_is_offered(monkeypatch):
    monkeypatch.setattr(actions, "current_host", lambda: None)
    assert actions.reserve_mib() is None
    with pytest.raises(NotKnown):
        actions.set_reserve(1000)
