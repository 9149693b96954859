"""The rungs that move weights: what they say they can spare, on which device, and what is moved."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from headroom.guard import footprint, more_room, steps
from headroom.guard.footprint import Measuring
from headroom.guard.more_room import MoreRoom
from headroom.guard.plan import Plan
from headroom.guard.shortage import Shortage
from headroom.guard.steps import OffloadWeights, ReturnMemory, UnloadOthers
from headroom.measure.snapshot import DeviceMemory
from headroom.models import unload
from headroom.models.find import FoundModel

MIB = 1 << 20
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")


def patcher(device, mib, is_dynamic=False):
    return SimpleNamespace(load_device=device, mib=mib, model=object(), is_dynamic=is_dynamic)


class Host:
    """ComfyUI's list of loaded models, as far as the rungs look."""

    def __init__(self, *patchers):
        self.entries = [SimpleNamespace(model=p, device=p.load_device) for p in patchers]
        self.offloaded = []

    def loaded_entries(self):
        return list(self.entries)

    def entries_of(self, patchers):
        return [entry for entry in self.entries if any(entry.model is p for p in patchers)]

    def is_dynamic(self, patcher):
        return patcher.is_dynamic

    def unloadable_bytes(self, entry):
        return int(entry.model.mib * MIB)

    def offload_weights(self, patchers, wanted):
        self.offloaded.append(([p.mib for p in patchers], wanted))
        return sum(p.mib for p in patchers) * MIB if wanted is None else wanted


@pytest.fixture
def on_host(monkeypatch):
    def use(*patchers):
        host = Host(*patchers)
        unloaded = []
        monkeypatch.setattr(steps, "current_host", lambda: host)
        monkeypatch.setattr(steps, "guard_host", lambda: host)
        monkeypatch.setattr(unload, "current_host", lambda: host)
        monkeypatch.setattr(more_room, "current_host", lambda: host)
        monkeypatch.setattr(steps, "unload_models", lambda models: unloaded.extend(
            model.handle.mib for model in models))
        return host, unloaded

    return use


def lacking(mib, device=FIRST):
    return Shortage("device", device, missing_bytes=None if mib is None else mib * MIB)


def test_only_what_is_on_the_full_device_is_unloaded(on_host):
    _, unloaded = on_host(patcher(FIRST, 100), patcher(SECOND, 900), patcher(torch.device("cpu"),
                                                                            50))
    step = UnloadOthers(lambda: [])
    assert step.spares(lacking(10)) == 100 * MIB
    assert step.take(lacking(10), 8) == "unloaded 1 other model"
    assert unloaded == [100]


def test_a_device_without_a_number_is_the_first(on_host):
    on_host(patcher(torch.device("cuda"), 100))
    assert UnloadOthers(lambda: []).spares(lacking(10)) == 100 * MIB


def test_everywhere_is_unloaded_where_nobody_knows_which_device_is_full(on_host):
    _, unloaded = on_host(patcher(FIRST, 100), patcher(SECOND, 900))
    UnloadOthers(lambda: []).take(lacking(10, device=None), 8)
    assert unloaded == [100, 900]


def test_what_is_in_use_stays(on_host):
    used = patcher(FIRST, 500)
    on_host(used, patcher(FIRST, 100))
    assert UnloadOthers(lambda: [used]).spares(lacking(10)) == 100 * MIB


def test_some_kilobytes_are_not_loaded(on_host):
    """What every model under dynamic VRAM keeps."""
    used = patcher(FIRST, 0.07)
    on_host(used, patcher(FIRST, 0.07))
    assert UnloadOthers(lambda: [used]).spares(lacking(10)) == 0
    assert OffloadWeights(lambda: [used]).spares(lacking(10)) == 0
    assert "no other model" in UnloadOthers(lambda: [used]).why_not(lacking(10))
    assert "in RAM already" in OffloadWeights(lambda: [used]).why_not(lacking(10))


@pytest.mark.parametrize("step", [UnloadOthers(lambda: []), OffloadWeights(lambda: [])])
def test_weights_are_not_moved_to_ram_that_is_full(on_host, step):
    on_host(patcher(FIRST, 100))
    assert step.spares(Shortage("RAM")) == 0


def test_its_own_weights_leave_in_part_and_then_altogether(on_host):
    used = patcher(FIRST, 1000)
    host, _ = on_host(used)
    step = OffloadWeights(lambda: [used])
    step.take(lacking(200), 8)
    step.take(lacking(10), 7)
    assert host.offloaded == [([1000], 300 * MIB), ([1000], None)]


def test_pages_that_come_back_with_the_next_call_are_nothing_won(on_host):
    used = patcher(FIRST, 1000, is_dynamic=True)
    on_host(used)
    assert OffloadWeights(lambda: [used]).spares(lacking(200)) == 0
    assert MoreRoom(Plan(), used).spares(lacking(200)) == 0


def test_pages_of_a_model_that_the_call_does_not_use_can_go(on_host):
    on_host(patcher(FIRST, 160, is_dynamic=True))
    stuck = replace(lacking(40), stuck_bytes=200 * MIB)
    assert UnloadOthers(lambda: []).spares(stuck) == 160 * MIB
    assert UnloadOthers(lambda: []).spares(lacking(40)) == 0  # they yielded by themselves


def test_its_own_weights_cannot_leave_a_third_time(on_host):
    used = patcher(FIRST, 1000)
    on_host(used)
    step = OffloadWeights(lambda: [used])
    step.take(lacking(200), 8)
    assert not step.is_spent
    step.take(lacking(10), 7)
    assert step.is_spent


def test_all_of_its_own_weights_leave_where_half_would_not_do(on_host):
    used = patcher(FIRST, 1000)
    host, _ = on_host(used)
    OffloadWeights(lambda: [used]).take(lacking(900), 8)
    assert host.offloaded == [([1000], None)]


def test_its_weights_on_another_device_stay(on_host):
    here, there = patcher(FIRST, 1000), patcher(SECOND, 700)
    host, _ = on_host(here, there)
    step = OffloadWeights(lambda: [here, there])
    assert step.spares(lacking(200)) == 1000 * MIB
    step.take(lacking(900), 8)
    assert host.offloaded == [([1000], None)]


@pytest.mark.parametrize(("missing", "is_taken"), [(-5, True), (0, True), (1, False)])
def test_returning_memory_is_for_what_was_free_but_in_pieces(missing, is_taken):
    step, shortage = ReturnMemory(), lacking(missing)
    assert bool(step.spares(shortage)) is is_taken


def test_returning_memory_once_is_enough():
    step = ReturnMemory()
    assert step.spares(lacking(None)) is None
    step.take(lacking(None), 8)
    assert step.spares(lacking(None)) == 0


def test_others_are_found_by_the_models_kept(on_host):
    used, other = patcher(FIRST, 1), patcher(SECOND, 2)
    on_host(used, other)
    assert [m.handle for m in unload.others([FoundModel("patcher", used)])] == [other]
    assert unload.others([FoundModel("patcher", used)], FIRST) == []


def test_what_a_call_took_is_read_off_the_cache_it_leaves(monkeypatch):
    looks = iter([(900, 100, 100, 7), (500, 150, 500, 7), (500, 150, 500, 107)])

    def look(device):
        free, allocated, reserved, returned = next(looks)
        monkeypatch.setattr(footprint, "_returned", lambda device: returned)
        return DeviceMemory("cuda:0", "card", None, free, allocated, reserved, None)

    monkeypatch.setattr(footprint, "measure_device", look)
    monkeypatch.setattr(footprint, "_returned", lambda device: 7)
    begun = Measuring(FIRST)
    first = begun.done()
    assert (first.need_bytes, first.room_bytes) == (350, 850)
    again = begun.done()  # 100 were given back: they may have been in use at the same time
    assert again.need_bytes == 450


def test_buffers_that_have_yet_to_grow_are_no_room(monkeypatch):
    there = DeviceMemory("cuda:0", "card", None, 400, 0, 200, dynamic_bytes=300)
    monkeypatch.setattr(footprint, "measure_device", lambda device: there)
    monkeypatch.setattr(footprint, "_returned", lambda device: 0)
    monkeypatch.setattr(footprint, "guard_host",
                        lambda: SimpleNamespace(buffers_bytes=lambda: 100))
    assert Measuring(FIRST, lambda: 250).done().room_bytes == 750
    assert Measuring(FIRST, lambda: 50).done().room_bytes == 900


def test_tidying_up_frees_the_blocks_that_only_workspaces_keep(monkeypatch):
    done = []
    monkeypatch.setattr(steps, "guard_host", lambda: None)
    monkeypatch.setattr(steps, "clear_workspaces", lambda: done.append("workspaces"))
    monkeypatch.setattr(steps, "return_cache", lambda: done.append("cache"))
    steps.tidy()
    assert done == ["workspaces", "cache"]  # the other way round their blocks would stay
