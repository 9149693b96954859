"""Weights that make room: which can leave, on which device, and how much is kept free."""

from dataclasses import replace

import pytest
import torch
from support.hosts import MIB, Host, Patcher

from headroom.guard import attempt, weights
from headroom.guard.call import Call, Plan
from headroom.guard.lack import Lack
from headroom.models import unload
from headroom.models.find import FoundModel

FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")


def patcher(device, mib, is_dynamic=False):
    return Patcher(device=device, size=int(mib * MIB), dynamic=is_dynamic)


@pytest.fixture
def on_host(monkeypatch):
    def use(*patchers):
        host = Host(*patchers)
        unloaded = []
        monkeypatch.setattr(weights, "current_host", lambda: host)
        monkeypatch.setattr(unload, "current_host", lambda: host)
        monkeypatch.setattr(weights, "unload_models", lambda models: unloaded.extend(
            model.handle.size // MIB for model in models))
        return host, unloaded

    return use


def lacking(mib, device=FIRST, room=2000):
    return Lack("device", device, missing_bytes=None if mib is None else mib * MIB,
                room_bytes=room * MIB)


def lighter(patchers, lack, plan=None):
    """The room kept free of a call's own weights, in MiB; None if that changes nothing."""
    call = Call()
    call.patchers = patchers
    found = call.lighter(plan or Plan(), lack)
    return None if found is None else found[0].room_bytes // MIB


ALL = weights.EVERYTHING // MIB


@pytest.mark.parametrize("first", [FIRST, torch.device("cuda")], ids=["its number", "no number"])
def test_only_what_is_on_the_full_device_is_unloaded(on_host, first):
    _, unloaded = on_host(patcher(first, 100), patcher(SECOND, 900))
    assert weights.other_bytes([], lacking(10)) == 100 * MIB
    assert weights.unload_others([], FIRST) == 1
    assert unloaded == [100]


def test_everywhere_is_unloaded_where_nobody_knows_which_device_is_full(on_host):
    _, unloaded = on_host(patcher(FIRST, 100), patcher(SECOND, 900))
    assert weights.unload_others([], None) == 2
    assert unloaded == [100, 900]


def test_weights_in_use_stay(on_host):
    used = patcher(FIRST, 500)
    on_host(used, patcher(FIRST, 100))
    assert weights.other_bytes([used], lacking(10)) == 100 * MIB


def test_some_kilobytes_are_not_loaded(on_host):
    """What every model under dynamic VRAM keeps."""
    used = patcher(FIRST, 0.07)
    on_host(used, patcher(FIRST, 0.07))
    assert weights.other_bytes([used], lacking(10)) == 0
    assert lighter([used], lacking(10)) is None


def test_weights_are_not_moved_to_ram_that_is_full(on_host):
    used = patcher(FIRST, 100)
    on_host(used, patcher(FIRST, 100))
    assert weights.other_bytes([used], Lack("RAM")) == 0
    assert lighter([used], Lack("RAM")) is None


def test_its_own_weights_leave_in_part_and_then_altogether(on_host):
    used = patcher(FIRST, 1000)
    on_host(used)
    assert lighter([used], lacking(200)) == 2000 + 300
    assert lighter([used], lacking(10), Plan(room_bytes=2300 * MIB)) == ALL
    assert lighter([used], lacking(10), Plan(room_bytes=weights.EVERYTHING)) is None


def test_all_of_its_own_weights_leave_where_half_would_not_do(on_host):
    used = patcher(FIRST, 1000)
    on_host(used)
    assert lighter([used], lacking(900)) == ALL


def test_its_weights_on_another_device_stay(on_host):
    here, there = patcher(FIRST, 1000), patcher(SECOND, 700)
    on_host(here, there)
    assert weights.own_bytes([here, there], lacking(200)) == 1000 * MIB


def test_pages_that_the_next_call_loads_again_count_as_no_room(on_host):
    used = patcher(FIRST, 1000, is_dynamic=True)
    on_host(used)
    assert lighter([used], lacking(200)) is None


def test_pages_of_a_model_that_the_call_does_not_use_can_go(on_host):
    on_host(patcher(FIRST, 160, is_dynamic=True))
    stuck = replace(lacking(40), stuck_bytes=200 * MIB)
    assert weights.other_bytes([], stuck) == 160 * MIB
    assert weights.other_bytes([], lacking(40)) == 0  # they yielded by themselves


def test_others_are_found_by_the_models_kept(on_host):
    used, other = patcher(FIRST, 1), patcher(SECOND, 2)
    on_host(used, other)
    assert [m.handle for m in unload.others([FoundModel("patcher", used)])] == [other]
    assert unload.others([FoundModel("patcher", used)], FIRST) == []


def test_tidying_up_frees_the_blocks_that_only_workspaces_keep(monkeypatch):
    done = []
    monkeypatch.setattr(attempt, "guard_host", lambda: None)
    monkeypatch.setattr(attempt, "clear_workspaces", lambda: done.append("workspaces"))
    monkeypatch.setattr(attempt, "return_cache", lambda: done.append("cache"))
    attempt.tidy()
    assert done == ["workspaces", "cache"]  # the other way round their blocks would stay
