"""An encoder that streamed its embedding through a buffer begins again with an empty device."""

from types import SimpleNamespace

import pytest
import torch

from headroom.guard import clip, lessons, planned
from headroom.guard.choose import choose
from headroom.guard.clip import EncodeOnCPU, LoadAnew
from headroom.guard.plan import Plan
from headroom.guard.planned import PlannedCall
from headroom.guard.shortage import Shortage

MIB = 1 << 20
GPU = torch.device("cuda:0")


@pytest.fixture
def patcher(monkeypatch):
    """An encoder under dynamic VRAM; `unloaded` counts how often it was taken off its device."""
    found = SimpleNamespace(load_device=GPU, is_dynamic=True, unloaded=0)
    host = SimpleNamespace(is_dynamic=lambda one: one.is_dynamic)
    monkeypatch.setattr(clip, "current_host", lambda: host)

    def unload(models):
        for model in models:
            model.handle.unloaded += 1

    monkeypatch.setattr(clip, "unload_models", unload)
    monkeypatch.setattr(planned, "unload_models", unload)
    lessons.forget_all()
    yield found
    lessons.forget_all()


def lacking(buffers_mib, missing_mib=40):
    """Of 2,500 MiB 2,458 were to be had."""
    return Shortage("device", GPU, 160 * MIB, missing_mib * MIB, need_bytes=2500 * MIB,
                    room_bytes=2458 * MIB, buffers_bytes=buffers_mib * MIB)


def steps(patcher, began_mib=2016):
    plan = Plan()
    return LoadAnew(plan, patcher, lambda: began_mib * MIB), EncodeOnCPU(plan, None)


def test_it_is_tried_before_the_cpu_where_buffers_are_most_of_the_need(patcher):
    anew, on_cpu = steps(patcher)
    assert choose([anew, on_cpu], lacking(2064), "same bits") == [anew]
    assert choose([anew, on_cpu], lacking(2064), "speed") == [anew]
    assert choose([anew, on_cpu], lacking(96), "same bits") == [on_cpu]


def test_an_encoding_that_began_on_an_empty_device_is_not_begun_so_again(patcher):
    anew, on_cpu = steps(patcher, began_mib=0)
    assert choose([anew, on_cpu], lacking(2064), "same bits") == [on_cpu]


def test_weights_of_other_models_can_have_been_in_the_way_as_well(monkeypatch):
    """Their pages have left by now: the failed try needed the room."""
    sizes = {"a diffusion model": 900 * MIB, "on another device": 70 * MIB}
    entries = [SimpleNamespace(name=name, device=torch.device("cuda", index))
               for index, name in enumerate(sizes)]
    host = SimpleNamespace(loaded_entries=lambda: entries,
                           unloadable_bytes=lambda entry: sizes[entry.name])
    monkeypatch.setattr(clip, "current_host", lambda: host)
    assert clip._loaded_bytes(GPU) == 900 * MIB


def test_it_is_tried_once(patcher):
    anew, on_cpu = steps(patcher)
    assert anew.take(lacking(2064), 8) == "began with none of its own weights on the GPU"
    assert patcher.unloaded == 1
    assert choose([anew, on_cpu], lacking(2064), "same bits") == [on_cpu]


def test_weights_that_are_no_pages_are_left_to_the_other_steps(patcher):
    patcher.is_dynamic = False
    assert steps(patcher)[0].spares(lacking(2064)) == 0


def test_the_next_encoding_of_the_kind_begins_so(patcher, monkeypatch):
    monkeypatch.setattr(lessons, "room_bytes", lambda device: 2500 * MIB)
    monkeypatch.setattr(planned, "tidy", lambda: None)
    first = PlannedCall("kind", GPU, [patcher])
    first.lacked(lacking(2064))
    LoadAnew(first.plan, patcher, lambda: MIB).take(lacking(2064), 8)
    first.done()
    second = PlannedCall("kind", GPU, [patcher])
    assert (patcher.unloaded, second.plan.empty) == (2, True)
    assert "began with none of its own weights on the GPU" in second.plan.words()
